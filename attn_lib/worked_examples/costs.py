"""What a file of costs can state: the costs by name, the sizes they take, and the units they are printed in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

import torch

from attn_lib.cost import AttentionCost, attention_cost, kv_cache_bytes
from attn_lib.errors import require

# What a size is when a file does not give it; beside these, the feed-forward sublayer is four times as wide as the model.
OTHERWISE = {"num_layers": 1, "batch_size": 1, "length": 1, "bytes_per_number": 2}

MEMORY = ("kv_cache", "weights")
WORK = ("query_projection", "projections", "scores", "weighted_sum", "attention", "feed_forward", "logits", "total")
COSTS = (*MEMORY, *WORK)

BYTES = {"B": 1, **{f"{prefix}B": 1000**n for n, prefix in enumerate("kMGT", 1)}, "KB": 1000}
BYTES |= {f"{prefix}iB": 1024**n for n, prefix in enumerate("KMGT", 1)}
NUMBERS = {"numbers": 1, "thousand numbers": 10**3, "million numbers": 10**6}
FLOPS = {"FLOP": 1, "MFLOP": 10**6, "GFLOP": 10**9, "TFLOP": 10**12}
RATIOS = {"x": 1, "%": Fraction(1, 100), "% less": Fraction(-1, 100)}
READ_AS = {"B": "B", "kB": "KiB", "KB": "KiB", "MB": "MiB", "GB": "GiB", "TB": "TiB"}  # a thousand meant as 1024


def count(cost: str, sizes: Mapping[str, int]) -> int:
    """A cost by its name: how many numbers are stored, or how many FLOPs are done, forward, with every pair computed.

    Args:
        cost: one of ``COSTS``. ``attention`` is the scores and the weighted sum; ``feed_forward`` two matrices;
            ``logits`` the last map, to the vocabulary; ``total`` is projections, attention, feed_forward and logits.
        sizes: those that this cost takes; ``OTHERWISE`` fills in.

    Raises:
        ValueError: a size that it takes is not given, or does not fit the others.

    >>> count("kv_cache", {"num_layers": 80, "num_kv_heads": 8, "head_dim": 128})
    163840
    >>> count("logits", {"d_model": 768, "vocabulary": 50257, "length": 1024}) // 10**9
    79
    """
    sizes = _filled(cost, sizes)
    tokens = sizes["batch_size"] * sizes["length"]
    if cost == "kv_cache":
        return kv_cache_bytes(
            num_kv_heads=sizes["num_kv_heads"], head_dim=sizes["head_dim"], value_dim=sizes.get("value_dim"),
            num_layers=sizes["num_layers"], length=sizes["length"], batch_size=sizes["batch_size"], dtype=torch.uint8,
        )  # fmt: skip
    if cost == "logits":
        return 2 * tokens * sizes["d_model"] * sizes["vocabulary"]
    if cost == "feed_forward":
        return sizes["num_layers"] * 4 * tokens * sizes["d_model"] * sizes["d_feed_forward"]
    if cost == "total":
        return sum(count(part, sizes) for part in ("projections", "attention", "feed_forward", "logits"))
    layer = attention_cost(
        d_model=sizes["d_model"], num_heads=sizes["num_heads"], num_kv_heads=sizes.get("num_kv_heads"),
        T=sizes["length"], batch_size=sizes["batch_size"], dtype=torch.uint8,
    )  # fmt: skip
    return sizes["num_layers"] * _in_a_layer(cost, layer)


def _in_a_layer(cost: str, layer: AttentionCost) -> int:
    if cost == "weights":
        return layer.tensors["weights"]  # of a byte each
    if cost == "projections":
        return layer.projections
    if cost == "attention":
        return layer.matmul_flops - layer.projections
    return layer.steps[cost.replace("_", " ")].flops


def _filled(cost: str, sizes: Mapping[str, int]) -> dict[str, int]:
    sizes = {**OTHERWISE, **sizes}
    if "d_model" in sizes:
        sizes.setdefault("d_feed_forward", 4 * sizes["d_model"])
    if cost == "weights":
        sizes.setdefault("d_model", sizes.get("num_heads", 1))  # the width of a head does not matter
    needed = ("num_kv_heads", "head_dim") if cost == "kv_cache" else ("d_model",)
    needed += ("vocabulary",) if cost in ("logits", "total") else ()
    needed += () if cost in ("kv_cache", "logits", "feed_forward") else ("num_heads",)
    missing = [name for name in needed if name not in sizes]
    require(not missing, f"{cost} needs {', '.join(missing)} among the sizes")
    return sizes


def units(cost: str) -> dict[str, int | Fraction]:
    """The units that a cost may be printed in, with what each is worth.

    >>> list(units("scores"))[-3:], units("kv_cache")["GiB"] == 1024**3
    (['MFLOP', 'GFLOP', 'TFLOP'], True)
    """
    return {**RATIOS, **(BYTES | NUMBERS if cost in MEMORY else FLOPS)}


def in_unit(cost: str, sizes: Mapping[str, int], unit: str, reference: int | None = None) -> Fraction:
    """A cost as a number of units, exactly.

    Args:
        cost: one of ``COSTS``.
        sizes: as for :func:`count`.
        unit: one of ``units(cost)``.
        reference: what a ratio relates it to.

    >>> in_unit("kv_cache", {"num_kv_heads": 8, "head_dim": 128, "num_layers": 80}, "KiB")
    Fraction(320, 1)
    """
    number = count(cost, sizes)
    if unit in RATIOS:
        ratio = Fraction(number, reference)
        return (1 - ratio) * 100 if unit == "% less" else ratio / RATIOS[unit]
    if unit in BYTES:
        number *= {**OTHERWISE, **sizes}["bytes_per_number"]
    return Fraction(number, units(cost)[unit])


def cost_mistakes(
    cost: str, sizes: Mapping[str, int], unit: str, reference: int | None = None
) -> Iterator[tuple[str, Fraction]]:
    """Each usual mistake that this cost leaves room for: its name, and the number of units that it gives.

    >>> sizes = {"num_kv_heads": 8, "num_heads": 32, "head_dim": 128, "num_layers": 80}
    >>> [name for name, value in cost_mistakes("kv_cache", sizes, "KiB") if value == 1280]
    ['as many heads of keys and values as of queries']
    """
    value, sizes = in_unit(cost, sizes, unit, reference), {**OTHERWISE, **sizes}
    if unit in RATIOS:
        yield "the ratio upside down", in_unit(cost, sizes, "x", reference) ** -1 / abs(RATIOS[unit])
        return
    if cost == "kv_cache":
        yield "keys without values", value / 2
        heads = sizes.get("num_heads")
        if heads not in (None, sizes["num_kv_heads"]):
            yield "as many heads of keys and values as of queries", value * heads / sizes["num_kv_heads"]
    if unit in BYTES:
        by_1024 = READ_AS.get(unit, unit)
        by_1000 = next((name for name, read in READ_AS.items() if read == unit and name != "KB"), unit)
        for other in {by_1024, by_1000} - {unit}:
            yield f"{other} printed as {unit}", in_unit(cost, sizes, other)
        for size in (1, 2, 4):
            if size != sizes["bytes_per_number"]:
                yield f"{size} {'byte' if size == 1 else 'bytes'} a number", value * size / sizes["bytes_per_number"]
        yield "bits for bytes", value * 8
    if cost in WORK:
        yield "a multiplication and an addition counted as one", value / 2
    for name, what in (("num_layers", "one layer"), ("length", "one token"), ("batch_size", "one sequence")):
        if sizes[name] > 1:
            yield f"{what} alone", in_unit(cost, {**sizes, name: 1}, unit)
    if cost == "weights" and sizes["num_heads"] > 1:
        yield "one head alone", value / sizes["num_heads"]

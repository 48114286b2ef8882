"""What attention costs, predicted from its shape before anything runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from attn_lib.attention import check_choices
from attn_lib.errors import require, require_bool, require_integer


@dataclass(frozen=True)
class Step:
    """What one step computes, and what it moves when it runs by itself.

    Attributes:
        flops: floating point operations; a product of ``[a, b]`` with ``[b, c]`` takes 2abc.
        bytes_read: of its inputs, each once.
        bytes_written: of its result.
    """

    flops: int
    bytes_read: int
    bytes_written: int

    @property
    def intensity(self) -> float:
        """FLOPs for each byte that is read or written (Williams et al. 2009).

        A machine that does F FLOPs and moves M bytes in a second is kept waiting by memory where it is below F / M.
        """
        return self.flops / (self.bytes_read + self.bytes_written)


@dataclass(frozen=True)
class AttentionCost:
    """What :func:`attention_cost` predicts, for hidden states ``[B, T, D]`` and weights ``[B, H, T, S]``.

    Attributes:
        steps: name to :class:`attn_lib.cost.Step`, in the order in which they run, each by itself.
        tensors: name to bytes, of everything that the steps read or write.
        pairs: query-key pairs that are computed, for one head of one sequence.

    Source:
        See :func:`attention_cost`.

    In PyTorch:
        No counterpart.
    """

    steps: dict[str, Step]
    tensors: dict[str, int]
    pairs: int

    @property
    def flops(self) -> int:
        """Of all steps."""
        return sum(step.flops for step in self.steps.values())

    @property
    def matmul_flops(self) -> int:
        """Of the matrix products alone, without the softmax; so does a FLOP counter count."""
        return self.flops - self.steps["softmax"].flops

    @property
    def projections(self) -> int:
        """FLOPs of the four projections, 8 B S D^2 where no head is shared."""
        return sum(step.flops for name, step in self.steps.items() if name.endswith("projection"))

    @property
    def core(self) -> Step:
        """Scores, softmax and weighted sum as one step, which reads Q, K, V and writes what the heads give.

        A fused kernel moves that much at best; neither scores nor weights are written.
        """
        inside = [self.steps[name] for name in ("scores", "softmax", "weighted sum")]
        read = sum(self.tensors[name] for name in ("query", "key", "value"))
        return Step(sum(step.flops for step in inside), read, self.tensors["heads"])

    @property
    def kv_cache(self) -> int:
        """Bytes of the keys and values."""
        return self.tensors["key"] + self.tensors["value"]


SOFTMAX_FLOPS = 5  # a pair: compare with the largest, subtract it, exponential, add up, divide


def attention_cost(
    *,
    d_model: int,
    num_heads: int,
    T: int,
    S: int | None = None,
    batch_size: int = 1,
    num_kv_heads: int | None = None,
    d_context: int | None = None,
    is_causal: bool = False,
    window: int | None = None,
    skip_hidden: bool = True,
    dtype: torch.dtype = torch.float32,
) -> AttentionCost:
    """FLOPs, bytes and arithmetic intensity of one multi-head attention layer, forward.

    With P pairs of query and key for each head of each sequence, of T S at most, and Dk = D / H:

    ==================  ==========================  ==============================
    step                FLOPs                       writes
    ==================  ==========================  ==============================
    query projection    2 B T D^2                   query ``[B, H, T, Dk]``
    key projection      2 B S D Hkv Dk              key ``[B, Hkv, S, Dk]``
    value projection    2 B S D Hkv Dk              value ``[B, Hkv, S, Dk]``
    scores              2 B H P Dk                  scores ``[B, H, T, S]``
    softmax             5 B H P                     weights ``[B, H, T, S]``
    weighted sum        2 B H P Dk                  heads ``[B, T, D]``
    output projection   2 B T D^2                   output ``[B, T, D]``
    ==================  ==========================  ==============================

    So the projections take 8 B S D^2 and the two products between them 4 B S^2 D where T = S, no head is shared
    and no pair hidden. Biases are left out: at B T D additions each they are one part in 2 D.
    Training takes three times the products: each has two on the way back.

    Args:
        d_model: D, which num_heads divides.
        num_heads: heads of the queries, H.
        T: queries of a sequence.
        S: keys of a sequence; T when left out.
        batch_size: sequences, B.
        num_kv_heads: Hkv, which divides H; H when left out.
        d_context: width of what keys and values are made from; D when left out.
        is_causal: the queries are the last T of the S positions, and see none that is later.
        window: each query sees that many of the latest keys.
        skip_hidden: count only pairs that may be attended, as a kernel at its best; False counts all T S, which
            the equation computes before it masks. Tensors are whole either way.
        dtype: of inputs and parameters. Scores are in float32 at least.

    Returns:
        Steps, tensors and pairs.

    Raises:
        TypeError: a size that is no integer, a flag that is no bool, a dtype that is none.
        ValueError: a size below 1, heads that do not divide.

    Source:
        Vaswani et al. 2017, table 1, for the orders of growth; Narayanan et al. 2021, appendix, for
        the factors 8 and 4. The five of the softmax is our own count, an exponential being one.

    In PyTorch:
        ``torch.utils.flop_counter`` counts the products while they run, all T S pairs, without the softmax.

    >>> cost = attention_cost(d_model=512, num_heads=8, T=4096)
    >>> cost.tensors["weights"] // 2**20  # MiB
    512
    >>> cost.projections == 8 * 4096 * 512**2, cost.matmul_flops - cost.projections == 4 * 4096**2 * 512
    (True, True)
    >>> round(cost.steps["softmax"].intensity, 3), round(cost.core.intensity)  # FLOPs a byte: alone, and fused
    (0.625, 1044)
    """
    S = T if S is None else S
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    d_context = d_model if d_context is None else d_context
    for name, size in (
        ("d_model", d_model), ("num_heads", num_heads), ("T", T), ("S", S), ("batch_size", batch_size),
        ("num_kv_heads", num_kv_heads), ("d_context", d_context),
    ):  # fmt: skip
        require_integer(name, size, 1)
    require(d_model % num_heads == 0, f"num_heads = {num_heads} must divide d_model = {d_model}")
    require(num_heads % num_kv_heads == 0, f"num_kv_heads = {num_kv_heads} must divide num_heads = {num_heads}")
    require_bool("skip_hidden", skip_hidden)
    _require_dtype(dtype)
    pairs = visible_pairs(T, S, is_causal=is_causal, window=window)
    pairs = pairs if skip_hidden else T * S

    B, H, Hkv, D, Dk = batch_size, num_heads, num_kv_heads, d_model, d_model // num_heads
    scores_bytes = max(dtype.itemsize, torch.float32.itemsize)
    numbers = {
        "hidden_states": B * T * D, "context": B * S * d_context,
        "w_q": D * D, "w_k": d_context * Hkv * Dk, "w_v": d_context * Hkv * Dk, "w_o": D * D,
        "query": B * T * D, "key": B * S * Hkv * Dk, "value": B * S * Hkv * Dk,
        "scores": B * H * T * S, "weights": B * H * T * S, "heads": B * T * D, "output": B * T * D,
    }  # fmt: skip
    tensors = {name: count * (scores_bytes if name == "scores" else dtype.itemsize) for name, count in numbers.items()}

    def step(flops: int, reads: tuple[str, str] | tuple[str], writes: str) -> Step:
        return Step(flops, sum(tensors[name] for name in reads), tensors[writes])

    to_query, to_key = 2 * B * T * D * D, 2 * B * S * d_context * Hkv * Dk
    return AttentionCost(
        steps={
            "query projection": step(to_query, ("hidden_states", "w_q"), "query"),
            "key projection": step(to_key, ("context", "w_k"), "key"),
            "value projection": step(to_key, ("context", "w_v"), "value"),
            "scores": step(2 * B * H * pairs * Dk, ("query", "key"), "scores"),
            "softmax": step(SOFTMAX_FLOPS * B * H * pairs, ("scores",), "weights"),
            "weighted sum": step(2 * B * H * pairs * Dk, ("weights", "value"), "heads"),
            "output projection": step(to_query, ("heads", "w_o"), "output"),
        },
        tensors=tensors,
        pairs=pairs,
    )


def visible_pairs(T: int, S: int | None = None, *, is_causal: bool = False, window: int | None = None) -> int:
    """How many of the pairs ``[T, S]`` of query and key may attend, under a causal order or a window.

    The queries are the last T of the S positions, as everywhere in this library. With T = S = n, a causal order
    leaves n (n + 1) / 2 pairs, and a window of W leaves W n - W (W - 1) / 2 of them, for W up to n.

    Args:
        T: queries.
        S: keys; T when left out.
        is_causal: no key later than the query.
        window: the query's own position and the W - 1 before it.

    Returns:
        The number of pairs, T S at most.

    Raises:
        TypeError: a length or window that is no integer, is_causal that is no bool.
        ValueError: a length or window below 1.

    Source:
        Sums of arithmetic series; Beltagy et al. 2020, section 3.1, for the window.

    In PyTorch:
        No counterpart; ``causal_mask(T, S).sum()`` counts the same by looking at every pair.

    >>> visible_pairs(4), visible_pairs(4, is_causal=True), visible_pairs(4, window=2)
    (16, 10, 7)
    """
    S = T if S is None else S
    require_integer("T", T, 1)
    require_integer("S", S, 1)
    check_choices(is_causal, window, None, None)
    if not is_causal and window is None:
        return T * S
    # Query t stands at position t + S - T and may see all up to it: that many, but no more than the window holds.
    widest = S if window is None else min(window, S)
    first = S - T + 1  # keys that the first query may see; below 1 it sees none
    rising = range(max(first, 1), widest)  # a query each: it sees as many keys as its place
    full = S - max(first, widest) + 1  # queries that see all that the window holds
    return (rising.start + rising.stop - 1) * len(rising) // 2 + full * widest


def tiled_traffic_bytes(
    *,
    T: int,
    S: int | None = None,
    head_dim: int,
    on_chip_bytes: int,
    num_heads: int = 1,
    batch_size: int = 1,
    dtype: torch.dtype = torch.float16,
) -> int:
    """Bytes that FlashAttention's forward pass moves between a GPU's main memory and its on-chip memory.

    With room for M numbers on the chip, keys and values ``[S, Dk]`` come in blocks of ``Bc = ceil(M / 4 Dk)`` rows, once each:
    2 S Dk numbers. For every one of the ``ceil(S / Bc)`` blocks all queries and outputs so far come in, and the outputs
    go out again, with a running maximum and a running sum for each row: 3 T Dk + 4 T numbers. So it is
    ``O(T S Dk^2 / M)``, where the equation step by step moves ``O(T S)``.

    Args:
        T: queries of a sequence.
        S: keys of a sequence; T when left out.
        head_dim: Dk, of queries, keys and values.
        on_chip_bytes: what one head may use there, 4 Dk numbers at least.
        num_heads: heads of the queries, H.
        batch_size: sequences, B.
        dtype: of all numbers.

    Returns:
        The bytes that the algorithm as published moves from its line 3 on; the zeros with which it starts are left
        out. Caches between the two memories are not in the model.

    Raises:
        TypeError: a size that is no integer, a dtype that is none.
        ValueError: a size below 1, no room on the chip for one row of each block.

    Source:
        Dao et al. 2022, algorithm 1 and theorem 2. FlashAttention-2 (Dao 2023) walks the other way round: outputs
        stay on the chip, and keys and values come in once for each block of queries.

    In PyTorch:
        Nothing predicts it.

    >>> traffic = tiled_traffic_bytes(T=1024, head_dim=64, on_chip_bytes=192 * 1024)
    >>> scores_and_weights = 4 * 1024 * 1024 * 2  # each written once and read once, 2 bytes a number
    >>> round(scores_and_weights / traffic, 1)
    5.7
    """
    S = T if S is None else S
    for name, size in (
        ("T", T), ("S", S), ("head_dim", head_dim), ("on_chip_bytes", on_chip_bytes),
        ("num_heads", num_heads), ("batch_size", batch_size),
    ):  # fmt: skip
        require_integer(name, size, 1)
    _require_dtype(dtype)
    room = on_chip_bytes // dtype.itemsize
    require(
        room >= 4 * head_dim,
        f"on_chip_bytes must hold one row each of query, key, value and output, {4 * head_dim * dtype.itemsize} bytes,"
        f" got {on_chip_bytes}",
    )
    columns = math.ceil(room / (4 * head_dim))
    passes = math.ceil(S / columns)
    return batch_size * num_heads * (2 * S * head_dim + passes * (3 * T * head_dim + 4 * T)) * dtype.itemsize


def kv_cache_bytes(
    *,
    num_kv_heads: int,
    head_dim: int,
    value_dim: int | None = None,
    num_layers: int = 1,
    length: int = 1,
    batch_size: int = 1,
    dtype: torch.dtype = torch.float16,
) -> int:
    """Bytes of the keys and values that a model remembers while it writes.

    Each layer keeps keys ``[B, Hkv, length, Dk]`` and values ``[B, Hkv, length, Dv]``. How many heads ask
    does not matter.

    Args:
        num_kv_heads: Hkv, the heads that keys and values have.
        head_dim: width of a key, Dk.
        value_dim: Dv; Dk when left out. 0 where values are read out of the stored keys and take no room of their
            own: multi-head latent attention is one such head, as wide as its latent vector and its rotary part.
        num_layers: layers, each with a cache of its own.
        length: tokens; 1 gives the bytes for each token.
        batch_size: sequences, B.
        dtype: of what is stored.

    Returns:
        The bytes, exactly. A :class:`KVCache` of that ``max_length`` takes as many, by its ``nbytes``, in each layer.

    Raises:
        TypeError: a size that is no integer, a dtype that is none.
        ValueError: a size below 1 (``value_dim``, ``length``: below 0).

    Source:
        Shazeer 2019, section 3, for what one shared head saves; Ainslie et al. 2023, section 2.2, for groups.

    In PyTorch:
        Nothing predicts it; ``tensor.nbytes`` counts what is there.

    >>> kv_cache_bytes(num_layers=80, num_kv_heads=8, head_dim=128) // 1024  # Llama 2 70B, KiB for each token
    320
    >>> kv_cache_bytes(num_layers=80, num_kv_heads=64, head_dim=128) // 1024  # had its 64 heads not been grouped
    2560
    """
    value_dim = head_dim if value_dim is None else value_dim
    for name, size, least in (
        ("num_kv_heads", num_kv_heads, 1), ("head_dim", head_dim, 1), ("value_dim", value_dim, 0),
        ("num_layers", num_layers, 1), ("length", length, 0), ("batch_size", batch_size, 1),
    ):  # fmt: skip
        require_integer(name, size, least)
    _require_dtype(dtype)
    return num_layers * batch_size * length * num_kv_heads * (head_dim + value_dim) * dtype.itemsize


def _require_dtype(dtype: object) -> None:
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype must be a torch.dtype, got {dtype!r}")

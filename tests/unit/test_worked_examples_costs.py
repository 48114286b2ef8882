"""Files of printed costs: what they can state, what is refused, errata, units, and the usual mistakes."""

from __future__ import annotations

import json
from fractions import Fraction
from xml.etree import ElementTree

import pytest
import torch

from attn_lib import KVCache
from attn_lib.__main__ import main
from attn_lib.worked_examples import CostExample, ExampleError, check_example, load_example
from attn_lib.worked_examples.costs import BYTES, COSTS, cost_mistakes, count, in_unit, units

HEAD = "title: t\nsource: {document: d}\n"
LLAMA = "sizes: {num_layers: 80, num_heads: 64, num_kv_heads: 8, head_dim: 128}\n"


@pytest.fixture
def write(tmp_path):
    """Write a file of costs, its head apart, and return its path."""

    def _write(text: str):
        path = tmp_path / "costs.yml"
        path.write_text(HEAD + text, encoding="utf-8")
        return path

    return _write


@pytest.fixture
def check(write):
    """Write, load and check one cost of Llama 2 70B, or of the sizes that are given."""

    def _check(entry: str, sizes: str = LLAMA):
        example = load_example(write(f"{sizes}costs:\n  - {{{entry}}}\n"))
        assert isinstance(example, CostExample)
        return check_example(example)

    return _check


# The costs themselves, counted another way


def test_a_cache_of_that_size_takes_that_much():
    cache = KVCache(1, 8, 5, 16, dtype=torch.float16)
    sizes = {"num_kv_heads": 8, "head_dim": 16, "length": 5}
    assert in_unit("kv_cache", sizes, "B") == cache.nbytes


def test_costs_of_a_layer_against_counting_every_product():
    B, T, D, H, F, vocabulary, layers = 2, 5, 12, 3, 7, 11, 4

    def product(rows, inner, columns):
        return 2 * rows * inner * columns

    by_hand = {
        "query_projection": product(B * T, D, D),
        "projections": 4 * product(B * T, D, D),
        "scores": B * H * product(T, D // H, T),
        "weighted_sum": B * H * product(T, T, D // H),
        "attention": 2 * B * H * product(T, D // H, T),
        "feed_forward": product(B * T, D, F) + product(B * T, F, D),
        "weights": B * H * T * T,
    }
    sizes = {"num_layers": layers, "batch_size": B, "length": T, "d_model": D, "num_heads": H, "d_feed_forward": F}
    sizes["vocabulary"] = vocabulary
    assert {cost: count(cost, sizes) for cost in by_hand} == {cost: layers * n for cost, n in by_hand.items()}
    logits = product(B * T, D, vocabulary)
    assert count("logits", sizes) == logits
    whole = sum(by_hand[cost] for cost in ("projections", "attention", "feed_forward"))
    assert count("total", sizes) == layers * whole + logits
    assert set(by_hand) | {"logits", "total", "kv_cache"} == set(COSTS)
    without = {key: size for key, size in sizes.items() if key != "d_feed_forward"}
    assert count("feed_forward", without) == count("feed_forward", {**sizes, "d_feed_forward": 4 * D})


def test_units():
    assert (BYTES["kB"], BYTES["KB"], BYTES["KiB"], BYTES["TB"], BYTES["TiB"]) == (1000, 1000, 1024, 1000**4, 1024**4)
    assert "GB" in units("weights") and "GB" not in units("total") and "GFLOP" not in units("kv_cache")
    sizes = {"num_kv_heads": 1, "head_dim": 250, "bytes_per_number": 4}
    assert in_unit("kv_cache", sizes, "kB") == 2
    assert in_unit("kv_cache", sizes, "numbers") == 500
    assert in_unit("kv_cache", sizes, "x", reference=250) == 2
    assert in_unit("kv_cache", sizes, "%", reference=2000) == 25
    assert in_unit("kv_cache", sizes, "% less", reference=2000) == 75
    assert in_unit("kv_cache", sizes, "thousand numbers") == Fraction(1, 2)


# Files


@pytest.mark.parametrize(
    ("entry", "right"),
    [
        ("cost: kv_cache, printed: 320, unit: KiB", True),
        ("cost: kv_cache, printed: 321, unit: KiB", False),
        ("cost: kv_cache, printed: 327680, unit: B", True),
        ("cost: kv_cache, printed: 327.7, unit: kB", True),
        ("cost: kv_cache, printed: 327.6, unit: kB", False),
        ("cost: kv_cache, printed: 320, unit: KB, read_as: KiB", True),
        ("cost: kv_cache, printed: 320, unit: KB", False),
        ("cost: kv_cache, printed: 328, unit: KB, read_as: KiB", False),
        ("cost: kv_cache, with: {length: 4096}, printed: 1.34, unit: GB", True),
        ("cost: kv_cache, with: {bytes_per_number: 1}, printed: 160, unit: KiB", True),
        ("cost: kv_cache, compared_with: {num_kv_heads: 64}, printed: 87.5, unit: '% less'", True),
        ("cost: kv_cache, with: {num_kv_heads: 64}, compared_with: {num_kv_heads: 8}, printed: 8, unit: x", True),
        ("cost: kv_cache, with: {num_kv_heads: 64}, compared_with: {num_kv_heads: 8}, printed: 9, unit: x", False),
        ("cost: weights, with: {length: 1000}, printed: 10.24, unit: GB", True),
        ("cost: weights, of: kv_cache, with: {length: 1000}, printed: 3125, unit: '%'", True),
    ],
)
def test_a_printed_cost(check, entry, right):
    report = check(entry)
    assert (report.verdict, report.checked, report.given) == ("right" if right else "wrong", 1, 4), report.line
    if not right:
        assert (
            report.line.startswith(f"{report.name}: wrong: kv_cache: printed 3")
            or "printed 9 x, right 8 x" in report.line
        )


def test_a_unit_that_holds_as_it_is_printed_must_not_be_read_otherwise(check):
    report = check("cost: kv_cache, with: {num_layers: 1}, printed: 4, unit: KB, read_as: KiB")
    assert report.verdict == "wrong"
    assert "4 KB is right as it is printed; without read_as it would fit" in report.line


def test_models_share_sizes_and_differ(write):
    text = """
sizes: {length: 1024, vocabulary: 50257}
models:
  small: {num_layers: 12, d_model: 768, num_heads: 12}
  large: {num_layers: 36, d_model: 1280, num_heads: 20, length: 512}
costs:
  - {cost: total, model: small, printed: 0.29, unit: TFLOP, says: all of it}
  - {cost: attention, model: small, of: total, printed: 13.3, unit: "%"}
  - {cost: attention, model: large, with: {length: 1024}, of: total, printed: 10.9, unit: "%"}
"""
    report = check_example(load_example(write(text)))
    assert report.verdict == "right", report.line
    assert (report.checked, report.given) == (3, 9)
    assert [row.place for row in report.rows] == ["small, all of it", "small", "large"]


def test_errata_are_proved(check):
    entry = "cost: kv_cache, printed: 640, unit: KiB, right: {right}, why: twice"
    report = check(entry.format(right="320"))
    assert report.verdict == "right"
    assert report.usual_mistake == "4 bytes a number (gives 640 KiB)"
    assert report.errata[0].says == "erratum kv_cache: printed 640 KiB, right 320 KiB (320.00)"
    assert report.line.endswith("; usual mistake behind the errata: 4 bytes a number (gives 640 KiB)")
    assert "no longer holds, 330 is not right, 320 is" in check(entry.format(right="330")).line
    text = entry.format(right="320") + "}\n  - {cost: kv_cache, printed: 4, unit: KiB"
    assert check(text).usual_mistake == "one layer alone (gives 4 KiB)"  # what is wrong goes before errata
    report = check("cost: kv_cache, printed: 320, unit: KiB, right: 320.0, why: it is not")
    assert "no longer holds, the printed 320 KiB is right" in report.line


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        ("cost: kv_cache, printed: 160, unit: KiB", "keys without values"),
        ("cost: kv_cache, with: {num_kv_heads: 16}, printed: 5120, unit: KiB", "bits for bytes"),
        ("cost: weights, with: {length: 100, num_layers: 3}, printed: 1.92, unit: MB", "1 byte a number"),
        ("cost: kv_cache, printed: 320, unit: kB", "KiB printed as kB"),
        ("cost: kv_cache, printed: 328, unit: KiB", "kB printed as KiB"),
        ("cost: kv_cache, printed: 4, unit: KiB", "one layer alone"),
        ("cost: kv_cache, with: {length: 7}, printed: 320, unit: KiB", "one token alone"),
        ("cost: kv_cache, with: {batch_size: 7}, printed: 320, unit: KiB", "one sequence alone"),
        ("cost: kv_cache, with: {num_heads: 48}, printed: 1920, unit: KiB", "as many heads of keys and values as of"),
        ("cost: weights, with: {length: 100, num_layers: 3}, printed: 60, unit: kB", "one head alone"),
        (
            "cost: kv_cache, with: {num_layers: 2}, compared_with: {num_layers: 5}, printed: 2.5, unit: x",
            "the ratio upside",
        ),
        (
            "cost: scores, with: {d_model: 640, length: 10, num_layers: 1}, printed: 64000, unit: FLOP",
            "a multiplication",
        ),
        ("cost: kv_cache, printed: 319, unit: KiB", None),
    ],
)
def test_usual_mistakes(check, entry, mistake):
    report = check(entry)
    assert report.verdict == "wrong"
    if mistake is None:
        assert report.usual_mistake is None and report.line.endswith("no usual mistake explains it")
    else:
        assert report.usual_mistake.startswith(mistake), report.line


def test_a_mistake_never_gives_the_right_number():
    sizes = {"num_layers": 3, "num_kv_heads": 2, "num_heads": 6, "head_dim": 5, "d_model": 30, "length": 7}
    for cost in ("kv_cache", "weights", "scores", "projections"):
        for unit in units(cost):
            reference = 11 if unit in ("x", "%", "% less") else None
            right = in_unit(cost, sizes, unit, reference)
            assert right not in [value for _, value in cost_mistakes(cost, sizes, unit, reference)], (cost, unit)


COST = "costs: [{cost: kv_cache, printed: 1, unit: B}]\n"
BAD = {
    "no sizes": (COST, ": title, source, costs: not the keys that fit; title, source, costs, and sizes or models"),
    "no costs": (LLAMA, ": costs missing; title, source, costs, and sizes or models"),
    "empty": (LLAMA + "costs: []\n", ":4: costs: an empty list does not fit"),
    "a word": ("sizes: {num_layers: many}\n" + COST, ":3: sizes.num_layers: many does not fit; a whole number of 1"),
    "nothing": ("sizes: {num_layers: 0}\n" + COST, ":3: sizes.num_layers: 0 does not fit"),
    "a size that is none": ("sizes: {layers: 1}\n" + COST, ":3: sizes.layers: unknown key; did you mean num_layers?"),
    "three bytes": (
        "sizes: {bytes_per_number: 3}\n" + COST,
        ":3: sizes.bytes_per_number: 3 does not fit; 1, 2, 4 or 8",
    ),
    "too few sizes": ("sizes: {head_dim: 1}\n" + COST, ":4: costs[0]: kv_cache needs num_kv_heads among the sizes"),
    "cost": (LLAMA + "costs: [{cost: cache, printed: 1, unit: B}]", ":4: costs[0].cost: cache does not fit; one of kv"),
    "unit": (
        LLAMA + "costs: [{cost: kv_cache, printed: 1, unit: byte}]",
        ":4: costs[0].unit: byte does not fit; a unit",
    ),
    "unit of another": (
        LLAMA + "costs: [{cost: kv_cache, printed: 1, unit: FLOP}]",
        ":4: costs[0].unit: FLOP is no unit of kv_cache; x, %, % less, B, kB,",
    ),
    "no unit": (LLAMA + "costs: [{cost: kv_cache, printed: 1}]", ":4: costs[0]: unit missing; cost, printed and unit"),
    "number": (
        LLAMA + "costs: [{cost: kv_cache, printed: about 1, unit: B}]",
        ":4: costs[0].printed: about 1 does not",
    ),
    "read as": (
        LLAMA + "costs: [{cost: kv_cache, printed: 1, unit: MB, read_as: GiB}]",
        ":4: costs[0].read_as: MB is not short for GiB; MiB would fit",
    ),
    "read as, of what stands for itself": (
        LLAMA + "costs: [{cost: kv_cache, printed: 1, unit: KiB, read_as: MiB}]",
        ":4: costs[0].read_as: KiB is not short for MiB; it stands for itself",
    ),
    "share of nothing": (
        LLAMA + "costs: [{cost: kv_cache, printed: 1, unit: x}]",
        ":4: costs[0]: x without what it relates to; of, or compared_with, would fit",
    ),
    "share in bytes": (
        LLAMA + "costs: [{cost: kv_cache, of: weights, printed: 1, unit: B}]",
        ":4: costs[0]: B without what it relates to; a ratio's unit, x, % or % less, would fit",
    ),
    "two relations": (
        LLAMA + "costs: [{cost: kv_cache, of: weights, compared_with: {length: 2}, printed: 1, unit: x}]",
        ":4: costs[0]: cost, of, compared_with, printed, unit: not the keys that fit",
    ),
    "right without why": (
        LLAMA + "costs: [{cost: kv_cache, printed: 1, unit: B, right: 2}]",
        ":4: costs[0]: cost, printed, unit, right: not the keys that fit",
    ),
    "model": (
        LLAMA + "costs: [{cost: kv_cache, model: a, printed: 1, unit: B}]",
        ":4: costs[0].model: a is not among the models; no model would fit",
    ),
    "heads": (
        "sizes: {d_model: 10, num_heads: 3}\ncosts: [{cost: scores, printed: 1, unit: FLOP}]",
        ":4: costs[0]: num_heads = 3 must divide d_model = 10",
    ),
    "of a calculation": (LLAMA + COST + "given: {X: [[1]]}\n", ":5: given: unknown key; "),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_content_is_refused_in_one_line_that_says_where_and_what_fits(name, write):
    text, says = BAD[name]
    path = write(text)
    with pytest.raises(ExampleError) as caught:
        load_example(path)
    message = str(caught.value)
    assert message.isprintable() and message.startswith(str(path))
    assert message[len(str(path)) :].startswith(says), message


def test_the_command_checks_them_like_all_others(write, tmp_path, capsys):
    path = write(
        LLAMA + "costs:\n  - {cost: kv_cache, printed: 320, unit: KiB}\n  - {cost: kv_cache, printed: 9, unit: MB}\n"
    )
    report = tmp_path / "report.xml"
    assert main(["check", "--json", "--junit", str(report), str(path)]) == 1
    (told,) = json.loads(capsys.readouterr().out)["files"]
    assert told["first_wrong"]["printed"] == "9 MB" and told["checked"] == 2
    (suite,) = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert main(["check", str(path)]) == 1
    table = capsys.readouterr().out.splitlines()
    assert table[2].split() == ["kv_cache", "320", "KiB", "320", "KiB", "right"]
    assert main(["check", str(write("costs: 1"))]) == 2

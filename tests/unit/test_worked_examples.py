"""Worked examples: the rounding rule, what a file can hold, errata, claims, and the usual mistakes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_UP, Decimal
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from attn_lib.worked_examples import builtin_examples, check_example, load_builtin, load_example
from attn_lib.worked_examples.example import shown
from attn_lib.worked_examples.rounding import agrees, padded, rounded

BUILTIN = {path.stem: path for path in builtin_examples()}


def rows(matrix) -> str:
    """A matrix in YAML's flow style, its strings as they are and its floats with four decimals."""
    if isinstance(matrix, str):
        return matrix
    if isinstance(matrix, (int, float)):
        return str(matrix) if isinstance(matrix, int) else f"{matrix:.4f}"
    return f"[{', '.join(rows(row) for row in matrix)}]"


@pytest.fixture
def write(tmp_path):
    """Write a worked example with a title and a source, and return its path."""

    def _write(text: str, name: str = "example.yml") -> Path:
        path = tmp_path / name
        path.write_text(f"title: an example\nsource: {{document: a test}}\n{text}", encoding="utf-8")
        return path

    return _write


@pytest.fixture
def check(write):
    """Write, load and check."""
    return lambda text: check_example(load_example(write(text)))


# The rounding rule


@settings(deadline=None)
@given(st.floats(-1e3, 1e3), st.integers(0, 9))
def test_a_value_rounded_to_any_digits_agrees_and_its_neighbours_do_not(value, digits):
    unit = Decimal(1).scaleb(-digits)
    exact = Decimal(value)
    for way in (ROUND_HALF_EVEN, ROUND_DOWN, ROUND_UP):
        text = f"{exact.quantize(unit, way):f}"
        distance = abs(exact - Decimal(text))
        assume(abs(distance - unit / 2) > abs(exact) * Decimal("1e-11"))  # ties have a test of their own
        assert agrees(text, value) == (distance < unit / 2)
    nearest = exact.quantize(unit, ROUND_HALF_EVEN)
    assert rounded(value, f"{unit:f}") == f"{abs(nearest) if nearest == 0 else nearest:f}"
    assert not agrees(f"{nearest + unit:f}", value)
    assert not agrees(f"{nearest - unit:f}", value)


@settings(deadline=None)
@given(st.floats(1e-300, 1e300), st.integers(1, 14))
def test_significant_digits(value, digits):
    text = f"{value:.{digits - 1}e}"
    assert agrees(text, value)
    mantissa, exponent = text.split("e")
    changed = mantissa[:-1] + str((int(mantissa[-1]) + 5) % 10)
    assert not agrees(f"{changed}e{exponent}", value)


@settings(deadline=None)
@given(st.integers(-(10**6), 10**6), st.integers(0, 6))
@example(892, 3)
def test_a_tie_may_go_either_way_and_float64_noise_may_not_decide_it(n, digits):
    unit = Fraction(1, 10**digits)
    tie = float((n + Fraction(1, 2)) * unit)
    for value in (tie, math.nextafter(tie, math.inf), math.nextafter(tie, -math.inf)):
        for near in (n, n + 1):
            text = f"{Decimal(near).scaleb(-digits):f}"
            assert agrees(text, value)


@pytest.mark.parametrize(
    ("text", "value", "right"),
    [
        ("0.3383", 0.338238, False),
        ("0.3382", 0.338238, True),
        ("0.930", 0.9295, True),
        ("0.93", 0.9295, True),
        ("1", 0.5, True),
        ("0", 0.5, True),
        ("0", 0.51, False),
        ("1.2e3", 1249.0, True),
        ("1.2e3", 1251.0, False),
        ("1200", 1249.0, False),
        ("-0.00", 0.0, True),
        ("-0.00", -0.004, True),
        ("1.", 1.4, True),
        (".5", 0.54, True),
        ("-inf", -math.inf, True),
        ("-inf", -1e300, False),
        ("0", -math.inf, False),
        ("0.5", math.nan, False),
        ("-inf", math.nan, False),
        ("1.10613872e-14", 1.106138724e-14, True),
        ("1.10613872e-14", 0.0, False),
    ],
)
def test_the_printed_digits_decide(text, value, right):
    assert agrees(text, value) is right


@pytest.mark.parametrize(
    ("text", "decimals", "stated"),
    [
        ("1", 4, "1.0000"),
        ("1.", 4, "1.0000"),
        ("-.5", 2, "-0.50"),
        ("0.26894", 4, "0.26894"),
        ("1.2e3", 1, "1200.0"),
        ("4.67e-10", 8, "4.67e-10"),
        ("-inf", 4, "-inf"),
        ("0", 0, "0"),
        ("7", None, "7"),
    ],
)
def test_zeros_that_print_leaves_out(text, decimals, stated):
    assert padded(text, decimals) == stated


def test_rounded_keeps_the_way_of_printing():
    assert rounded(0.338238, "0.3383") == "0.3382"
    assert rounded(0.338238, "0.3383", more=2) == "0.338238"
    assert rounded(1249.0, "9.9e3") == "1.2e+3"
    assert rounded(-1e-9, "0.00") == "0.00"
    assert rounded(-math.inf, "0.00") == "-inf"


# The documents' examples


def exact_attention(X, context, W_Q, W_K, W_V, query):
    """One row of attention in 50-digit decimals: scores, scaled scores, weights, output."""

    def product(row, matrix):
        return [sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*matrix, strict=True)]

    q = product(X[query], W_Q)
    keys, values = ([product(row, W) for row in context] for W in (W_K, W_V))
    scores = [sum(a * b for a, b in zip(q, k, strict=True)) for k in keys]
    scaled = [score / Decimal(len(q)).sqrt() for score in scores]
    powers = [score.exp() for score in scaled]
    weights = [power / sum(powers) for power in powers]
    output = product(weights, values)
    return {"scores": scores, "scaled_scores": scaled, "weights": weights, "output": output}


@pytest.mark.parametrize(
    ("name", "context", "token", "off"),
    [
        ("self_attention_love", "X", "love", {("weights", 3): "0.3382"}),
        ("cross_attention_watashiwa", "context", "私は", {}),
    ],
)
def test_printed_rows_against_decimal_arithmetic(name, context, token, off):
    worked = load_builtin(name)
    matrix = {key: [[Decimal(text) for text in row] for row in values] for key, values in worked.given_strings.items()}
    query = worked.query_tokens.index(token)
    right = exact_attention(matrix["X"], matrix[context], matrix["W_Q"], matrix["W_K"], matrix["W_V"], query)
    compared = 0
    for stage, values in right.items():
        for printing in range(2 if stage == "output" else 1):
            printed = worked.printed_values(stage, token, printing=printing)
            for i, (text, value) in enumerate(zip(printed, values, strict=True)):
                rounded_here = str(value.quantize(Decimal(text), ROUND_HALF_EVEN))
                assert rounded_here == off.get((stage, i), text)
                compared += 1
    assert compared == 4 + 4 + 4 + 3 + 3


def test_every_builtin_example_is_right_and_nothing_is_left_out():
    reports = {name: check_example(load_example(path)) for name, path in BUILTIN.items()}
    found = {name: (r.verdict, r.checked, r.given, len(r.errata), len(r.claims)) for name, r in reports.items()}
    assert found == {
        # Q, K, V of four tokens; scores, scaled scores, weights; d_k; the output twice
        "self_attention_love": ("right", 8 + 8 + 12 + 3 * 4 + 1 + 2 * 3, 8 + 4 + 4 + 6, 1, 6),
        "cross_attention_watashiwa": ("right", 2 + 8 + 12 + 3 * 4 + 2 * 3, 2 + 8 + 4 + 4 + 6, 0, 3),
        "multi_head_love": ("right", 9 + 3, 9 + 27, 0, 0),
        "keys_sentence": ("right", 0, 8, 0, 3),
    }
    for report in reports.values():
        report.assert_right()
        assert report.first_wrong is None and report.wrong == []


def test_the_known_erratum_is_declared_and_sums_tell_it():
    report = check_example(load_builtin("self_attention_love"))
    (erratum,) = report.errata
    assert (erratum.printed, erratum.right, erratum.status) == ("0.3383", "0.3382", "right")
    assert "row love, column learning" in erratum.place or "row love, column learning" in erratum.says
    claims = {(claim.place.rpartition(", ")[2]): claim.printed for claim in report.claims}
    assert claims["printed_sum"] == "1.0000"
    assert claims["rounded_sum"] == "0.9999"
    assert claims["carried_on"] == "0.8933 0.9296 0.8176"


def test_the_first_head_is_the_printed_result_of_self_attention():
    heads = load_builtin("multi_head_love").printed_values("head_outputs", "love", head=0)
    assert heads == load_builtin("self_attention_love").printed_values("output", "love", printing=1)


def test_the_output_map_is_three_diagonal_blocks():
    W_O = load_builtin("multi_head_love").given["W_O"]
    blocks = torch.cat([share * torch.eye(3, dtype=torch.float64) for share in (0.40, 0.35, 0.25)])
    torch.testing.assert_close(W_O, blocks, rtol=0, atol=0)


def test_prose_of_builtin_examples_holds_no_digits():
    for name in BUILTIN:
        worked = load_builtin(name)
        prose = [worked.title, worked.note, *worked.source.values(), *(e.why for e in worked.errata)]
        prose += [claim.says for claim in worked.claims]
        assert not [text for text in prose if any(character.isdigit() for character in text)]


def test_schema_is_a_schema_and_accepts_the_builtin_files_as_an_editor_reads_them():
    import yaml
    from jsonschema import Draft202012Validator

    schema = json.loads((BUILTIN["keys_sentence"].parent / "schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    for path in BUILTIN.values():
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert list(Draft202012Validator(schema).iter_errors(read)) == []


def test_importing_the_library_imports_neither_yaml_nor_jsonschema():
    code = "import sys, attn_lib; print([name for name in ('yaml', 'jsonschema', 'matplotlib') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.stdout.strip() == "[]", result.stderr


# What a file can hold


def test_scores_of_one_row_divided_by_a_number(check):
    report = check(
        """
given: {scores: [[112, 96]]}
settings: {scores_divided_by: 8}
printed:
  - {stage: scaled_scores, row: 0, values: [14, 12]}
  - {stage: weights, row: 0, values: [0.88, 0.12]}
  - {stage: weights, row: 0, column: 1, values: 0.12}
"""
    )
    assert (report.verdict, report.checked) == ("right", 5)


def test_causal_mask_minus_infinity_and_zeros(check):
    report = check(
        """
given: {scores: [[1, 2], [0, 0]], V: [[1, 2], [3, 4]]}
settings: {scores_divided_by: none, causal: true}
printed:
  - {stage: masked_scores, values: [[1, -inf], [0, 0]]}
  - {stage: weights, values: [[1, 0.000], [0.500, 0.500]]}
  - {stage: head_outputs, values: [[1, 2], [2.0, 3.0]]}
  - {stage: output, row: 1, values: [2.0, 3.0]}
"""
    )
    assert (report.verdict, report.checked) == ("right", 14)


@pytest.mark.parametrize(
    ("setting", "weights"),
    [
        ("window: 1", "[[1, 0, 0], [0, 1, 0], [0, 0, 1]]"),
        ("window: 2", "[[1, 0, 0], [0.50, 0.50, 0], [0, 0.50, 0.50]]"),
        ("mask: [[0, 1, 0], [1, 1, 0], [0, 0, 0]]", "[[0, 1, 0], [0.50, 0.50, 0], [0, 0, 0]]"),
        ("key_lengths: 2", "[[0.50, 0.50, 0], [0.50, 0.50, 0], [0.50, 0.50, 0]]"),
        ("key_lengths: [1, 2, 3]", "[[1, 0, 0], [0.50, 0.50, 0], [0.333, 0.333, 0.333]]"),
        ("key_lengths: [3, 1, 0], causal: true", "[[1, 0, 0], [1, 0, 0], [0, 0, 0]]"),
        ("softmax: false", "[[0, 0, 0], [0, 0, 0], [0, 0, 0]]"),
    ],
)
def test_settings_that_restrict_equal_scores(check, setting, weights):
    report = check(
        f"""
given: {{scores: [[0, 0, 0], [0, 0, 0], [0, 0, 0]]}}
settings: {{scores_divided_by: none, {setting}}}
printed: [{{stage: weights, values: {weights}}}]
"""
    )
    assert (report.verdict, report.checked) == ("right", 9), report.line


IDENTITY = """
given: {{Q: [[1, 0], [0, 1]], K: [[1, 0], [0, 1]], V: [[1, 0], [0, 1]]}}
settings: {{heads: 2}}
printed: [{{stage: output, {decimals}values: [[1., 0.], [0., 1.]]}}]
"""


def test_a_whole_number_says_little_unless_it_stands_for_decimals(check):
    report = check(IDENTITY.format(decimals=""))
    assert report.verdict == "right"  # 0.73 rounds to 1, and one half to 0
    report = check(IDENTITY.format(decimals="decimals: 4, "))
    assert report.verdict == "wrong"
    assert "output, row 0, column 0: printed 1., right 0.7311 (0.731059)" in report.line
    assert report.usual_mistake == "softmax left out (explains all 4 of the 4 printed numbers from there on)"


def test_an_erratum_of_numbers_whose_zeros_are_left_out(check):
    text = IDENTITY.format(decimals="decimals: 4, ")
    erratum = "errata: [{{stage: output, row: 0, printed: [1., 0.], right: {right}, why: they are shares}}]"
    report = check(text + erratum.format(right="[0.7311, 0.5000]"))
    assert report.first_wrong.place == "output, row 1, column 0"
    assert report.errata[0].printed == "1. 0." and report.errata[0].status == "right"
    twice = text.replace("printed: [", "printed: [{{stage: output, row: 0, values: [1., 0.]}}, ".format())
    assert twice.count("stage: output") == 2
    assert check(twice + erratum.format(right="[0.7311, 0.5000]")).errata[0].status == "right"
    report = check(text + erratum.format(right="[0.7311, 0.5001]"))
    assert "0.5001 is not right, 0.5000 is" in report.line or any("0.5001" in f.says for f in report.wrong)
    same = "printed: [{stage: Q, decimals: 2, values: [[1, 0.4]]}]\nerrata: [{stage: Q, row: 0, printed: [1, 0.4], right: [1.00, 0.50], why: half}]"
    assert check(f"given: {{Q: [[1, 0.5]]}}\n{same}").verdict == "right"  # 1 and 1.00 are the same there


def test_sums_of_numbers_whose_zeros_are_left_out(check):
    report = check(
        """
given: {scores: [[0, 0, 0]]}
settings: {scores_divided_by: none}
printed: [{stage: weights, decimals: 2, values: [[.33, .33, .33]]}]
claims: [{stage: weights, row: 0, rounded_sum: 0.99}, {stage: weights, row: 0, printed_sum: 0.99}]
"""
    )
    assert report.verdict == "right", report.line
    report = check(
        """
given: {weights: [[0.74, 0.26]], V: [[1], [2]]}
printed: [{stage: output, decimals: 1, values: [[1]]}]
claims: [{stage: output, row: 0, rounded_sum: 1.3}]
"""
    )
    assert [claim.status for claim in report.claims] == ["right"]


def test_a_row_divided_by_its_sum(check):
    text = "given: {{scores: [[1, 2, 5]]}}\nsettings: {{scores_divided_by: none}}\n"
    text += "claims: [{{stage: scores, row: 0, divided_by_sum: {shares}}}]"
    assert check(text.format(shares="[0.125, 0.25, 0.62]")).verdict == "right"
    report = check(text.format(shares="[0.125, 0.25, 0.64]"))
    assert "does not hold, 0.125 0.25 0.62 does" in report.line
    nothing = text.replace("[[1, 2, 5]]", "[[1, 2, -3]]").format(shares="[1, 2, -3]")
    assert check(nothing).verdict == "wrong"


def test_softcap_and_biases(check):
    report = check(
        f"""
given: {{X: [[1], [2]], W_Q: [[1]], b_Q: [0.5], W_K: [[1]], b_K: [-1], W_V: [[2]], b_V: [3], W_O: [[10]], b_O: [1]}}
settings: {{softcap: 2}}
printed:
  - {{stage: Q, values: [[1.5], [2.5]]}}
  - {{stage: K, values: [[0], [1]]}}
  - {{stage: scaled_scores, row: 1, values: [0, {2 * math.tanh(2.5 / 2):.6f}]}}
  - {{stage: V, values: [[5], [7]]}}
"""
    )
    assert (report.verdict, report.checked) == ("right", 8), report.line


def test_heads_with_matrices_of_their_own_and_shared_keys(check):
    report = check(
        """
given:
  X: [[1, 2]]
  W_Q: [[[1], [0]], [[0], [1]]]
  K: [[[3], [4]]]
  V: [[[1, 0], [0, 1]]]
settings: {heads: 2, kv_heads: 1, scores_divided_by: none}
printed:
  - {stage: Q, values: [[[1]], [[2]]]}
  - {stage: scores, head: 0, values: [[3, 4]]}
  - {stage: scores, head: 1, row: 0, values: [6, 8]}
  - {stage: weights, head: 1, row: 0, column: 1, values: 0.881}
  - {stage: concatenated, row: 0, values: [0.269, 0.731, 0.119, 0.881]}
"""
    )
    assert (report.verdict, report.checked) == ("right", 11), report.line


def test_heads_side_by_side_are_the_same_as_heads_apart(write):
    wide = load_example(
        write(
            "given: {Q: [[1, 2, 3, 4]], K: [[1, 0, 0, 1]], V: [[5, 6, 7, 8]]}\nsettings: {heads: 2}\n"
            "printed: [{stage: output, values: [[5, 6, 7, 8]]}]",
            "wide.yml",
        )
    )
    apart = load_example(
        write(
            "given: {Q: [[[1, 2]], [[3, 4]]], K: [[[1, 0]], [[0, 1]]], V: [[[5, 6]], [[7, 8]]]}\nsettings: {heads: 2}\n"
            "printed: [{stage: output, values: [[5, 6, 7, 8]]}]",
            "apart.yml",
        )
    )
    for stage in ("Q", "K", "V", "scores", "output"):
        torch.testing.assert_close(wide.tensor(stage), apart.tensor(stage), rtol=0, atol=0)
    assert wide.trace().scores.flatten().tolist() == [1.0, 4.0]


def test_long_floats_and_significant_digits(check):
    report = check(
        """
given: {Q: [[0.1257302165031433]], K: [[-0.6232744455337524], [41.0]]}
settings: {scores_divided_by: none}
printed: [{stage: scores, values: [[-7.8364e-2, 5.15494]]}]
"""
    )
    assert report.verdict == "right", report.line


def test_words_of_yaml_stay_words_and_a_token_that_stands_twice_is_counted(check):
    report = check(
        """
tokens: {query: [on], key: [yes, no, yes, 0.930, ~]}
given: {weights: [[0.1, 0.2, 0.3, 0.4, 0]]}
claims:
  - {stage: weights, row: on, order: [0.930, 2, no, 0, ~]}
"""
    )
    assert report.claims[0].printed == "0.930 > yes > no > yes > ~"
    assert report.verdict == "right"


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path):
    text = BUILTIN["cross_attention_watashiwa"].read_text(encoding="utf-8")
    path = tmp_path / "windows.yml"
    path.write_bytes(("\ufeff" + text.replace("\n", "\r\n")).encode())
    assert check_example(load_example(path)).verdict == "right"


# What an example answers


def test_printed_values_by_token_by_row_and_of_what_is_given():
    love = load_builtin("self_attention_love")
    assert love.printed_values("V", "learning") == ["0.36", "1.44", "0.84"]
    assert love.printed_values("V", 3) == love.printed_values("V")[3]
    assert love.printed_values("X", "love") == ["0.8", "1.2"]
    assert love.printed_values("d_k") == "2"
    assert love.printed_values("output", "love", printing=1) == ["0.893", "0.930", "0.818"]
    with pytest.raises(KeyError, match="weights, row I 0 times"):
        love.printed_values("weights", "I")
    with pytest.raises(KeyError, match="2 times; printing 2 is not there"):
        love.printed_values("output", "love", printing=2)
    with pytest.raises(ValueError, match="'hate' is not in V; 0 to 3, I, love"):
        love.printed_values("V", "hate")


def test_traces_unrounded_changed_and_carried_on():
    love = load_builtin("self_attention_love")
    weights = love.trace().weights[1]
    assert weights.dtype == torch.float64
    assert weights[3].item() == pytest.approx(0.338238, abs=5e-7)
    unscaled = love.trace(scale=1.0)
    torch.testing.assert_close(unscaled.scaled_scores, unscaled.scores, rtol=0, atol=0)
    replaced = love.trace({"weights": torch.eye(4, dtype=torch.float64)})
    torch.testing.assert_close(replaced.output, love.trace().V)
    carried = love.carried_trace()
    by_hand = Decimal("0.1688") * Decimal("0.40") + Decimal("0.2472") * Decimal("0.96")
    by_hand += Decimal("0.2457") * Decimal("0.56") + Decimal("0.3383") * Decimal("1.44")
    assert carried.output[1, 1].item() == pytest.approx(float(by_hand), abs=1e-12)
    # A row that is not printed stays unrounded.
    torch.testing.assert_close(carried.weights[0], love.trace().weights[0])


def test_shown_keeps_a_terminal_whole():
    assert shown("私は") == "私は"
    assert shown("a\x1b[31m\nb") == r"'a\x1b[31m\nb'"
    assert shown("") == "''"
    assert len(shown("x" * 1000)) < 80
    assert shown("\udcff").isascii()


# What is wrong


LOVE = BUILTIN["self_attention_love"].read_text(encoding="utf-8")


def changed(tmp_path: Path, old: str, new: str):
    """The report on the self-attention file with one thing changed."""
    assert LOVE.count(old) == 1
    path = tmp_path / "changed.yml"
    path.write_text(LOVE.replace(old, new), encoding="utf-8")
    return check_example(load_example(path))


def test_a_wrong_number_is_named_with_place_and_right_value(tmp_path):
    report = changed(tmp_path, "1.6888, 2.1408]", "1.6889, 2.1408]")
    assert report.verdict == "wrong"
    first = report.first_wrong
    assert (first.place, first.printed, first.right) == ("scores, row love, column machine", "1.6889", "1.6888")
    assert "scores, row love, column machine: printed 1.6889, right 1.6888 (1.688800)" in report.line
    assert report.line.endswith("no usual mistake explains it")
    with pytest.raises(AssertionError, match="1.6889"):
        report.assert_right()
    marked = [line for line in report.table.splitlines() if line.endswith("wrong")]
    assert len(marked) == 1 and marked[0].split()[:3] == ["scores", "row", "love"]


def test_the_first_wrong_number_is_the_first_of_the_calculation_not_of_the_file(tmp_path):
    report = changed(tmp_path, "      - [1.05, 0.65]", "      - [1.05, 0.66]")
    assert report.first_wrong.place == "Q, row I, column 1"
    swapped = load_example(tmp_path / "changed.yml")
    swapped = replace(swapped, printed=swapped.printed[::-1])
    assert check_example(swapped).first_wrong.place == "Q, row I, column 1"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "0.2457, 0.3383]",
            "0.2457, 0.3382]",
            "erratum weights, row love, column learning: no longer holds, 0.3383 is not",
        ),
        ("    printed: 0.3383", "    printed: 0.3384", "0.3384 is not what stands there"),
        ("    right: 0.3382", "    right: 0.3381", "0.3381 is not right, 0.3382 is"),
        ("    right: 0.3382", "    right: 0.33824", None),
        ("    column: learning", "    column: machine", "0.3383 is not what stands there"),
        ("    right: 0.3382", "    right: 0.33825", "0.33825 is not right, 0.33824 is"),
    ],
)
def test_an_erratum_is_proved(tmp_path, old, new, says):
    report = changed(tmp_path, old, new)
    if says is None:
        assert report.verdict == "right"
    else:
        assert report.verdict == "wrong"
        assert any(says in finding.says for finding in report.wrong), report.line


def test_an_erratum_on_a_right_number_is_an_error(check):
    report = check(
        """
given: {scores: [[0, 0]]}
settings: {scores_divided_by: none}
printed: [{stage: weights, values: [[0.5, 0.5]]}]
errata: [{stage: weights, row: 0, column: 1, printed: 0.5, right: 0.50, why: it is not}]
"""
    )
    assert report.verdict == "wrong"
    assert "erratum weights, row 0, column 1: no longer holds, the printed 0.5 is right" in report.line


def test_an_erratum_may_state_a_row_and_excuses_nothing_else(check):
    text = """
given: {{scores: [[0, 0, 0], [0, 0, 0]]}}
settings: {{scores_divided_by: none, causal: true}}
printed: [{{stage: weights, values: [[0.10, 0.60, 0.30], {second}]}}]
errata: [{{stage: weights, row: 0, printed: [0.10, 0.60, 0.30], right: [0.50, 0.50, 0.00], why: made up}}]
"""
    report = check(text.format(second="[0.33, 0.33, 0.33]"))
    assert report.verdict == "right"
    assert [row.status for row in report.rows] == ["erratum", "right"]
    report = check(text.format(second="[0.10, 0.33, 0.33]"))
    assert report.first_wrong.place == "weights, row 1, column 0"


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        ("sum: 1.00", True),
        ("sum: 0.99", False),
        ("order: [b, c, a]", True),
        ("order: [b, a]", True),
        ("order: [c, b, a]", False),
        ("order: [a, d]", False),
        ("order: [b, b]", False),
        ("largest: b", True),
        ("largest: c", False),
        ("smallest: a", False),
        ("smallest: d", False),
        ("difference: [b, c], value: 0.20", True),
        ("difference: [c, b], value: -0.20", True),
        ("difference: [b, c], value: 0.21", False),
        ("printed_sum: 1.00", True),
        ("printed_sum: 1", True),
        ("printed_sum: 1.01", False),
    ],
)
def test_claims_are_proved(check, claim, holds):
    report = check(
        f"""
tokens: {{query: [x], key: [a, b, c, d]}}
given: {{weights: [[0.1, 0.5, 0.3, 0.1]]}}
claims: [{{stage: weights, row: x, says: so it says, {claim}}}]
"""
    )
    assert (report.verdict == "right") is holds, report.line
    kind = claim.partition(":")[0]
    assert f"claim weights, row x, {kind} (so it says)" in report.claims[0].says
    if not holds:
        assert "does not hold" in report.line


def test_numbers_that_outgrow_float64_on_the_way_are_wrong_and_no_crash(check):
    report = check(
        """
given: {Q: [[1e300]], K: [[1e300], [-1e300]], V: [[1], [2]]}
printed: [{stage: scores, values: [[1, 2]]}, {stage: output, values: [[1]]}]
claims:
  - {stage: scores, row: 0, sum: 0}
  - {stage: scores, row: 0, rounded_sum: 0}
  - {stage: scores, row: 0, difference: [0, 1], value: 1}
  - {stage: scores, row: 0, largest: 0}
"""
    )
    assert report.first_wrong.right == "inf"
    assert [claim.status for claim in report.claims] == ["wrong", "wrong", "wrong", "right"]


def test_a_tie_is_nobodys_smallest(check):
    text = "tokens: {{query: [x], key: [a, b, c]}}\ngiven: {{weights: [[0.2, 0.6, {last}]]}}\n"
    text += "claims: [{{stage: weights, row: x, smallest: a}}]"
    assert check(text.format(last="0.3")).verdict == "right"
    report = check(text.format(last="0.2"))
    assert report.verdict == "wrong" and "(a tie)" in report.line


# The usual mistakes: what somebody prints who makes one, computed here without the library


X = torch.tensor([[1.0, 0.5, -1.0], [0.8, 1.2, 2.0], [1.5, 0.7, 0.3]], dtype=torch.float64)  # [T, D]
W_Q, W_K, W_V = (
    torch.tensor(W, dtype=torch.float64)
    for W in (
        [[1.0, 0.2, 0.5, -0.4], [0.1, 0.9, -0.3, 0.6], [0.7, -0.5, 0.2, 0.1]],
        [[0.6, 0.1, -0.2, 0.9], [-0.3, 1.0, 0.8, 0.4], [0.2, 0.5, 0.7, -0.6]],
        [[1.2, 0.0, 0.5, 1.5], [-0.2, 0.8, 0.3, 0.7], [0.4, 0.6, -0.9, 0.2]],
    )
)
CAUSAL = torch.ones(3, 3, dtype=torch.bool).tril()


def attend(Q, K, V, divisor, mask=None, dim=-1):
    scores = Q @ K.mT / divisor
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = torch.nan_to_num(scores.softmax(dim))
    return weights, weights @ V


def two_heads(name: str):
    """The example with two heads, where somebody used a view and no transpose."""
    Q, K, V = ((X @ W).view(3, 2, 2).transpose(0, 1) for W in (W_Q, W_K, W_V))
    if name == "heads split by view":
        Q, K, V = ((X @ W).reshape(2, 3, 2) for W in (W_Q, W_K, W_V))
    weights, heads = attend(Q, K, V, math.sqrt(2))
    output = heads.reshape(3, 4) if name == "heads merged by view" else heads.transpose(0, 1).reshape(3, 4)
    return weights, output


def one_head(name: str):
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    if name == "queries and keys swapped":
        Q, K = K, Q
    divisor = {"no scale": 1.0, "scale by sqrt(D)": math.sqrt(3)}.get(name, 2.0)
    mask = {"mask flipped": ~CAUSAL, "mask left out": None}.get(name, CAUSAL)
    if name == "mask after the softmax":
        weights = attend(Q, K, V, divisor)[0] * CAUSAL
        return weights, weights @ V
    weights, output = attend(Q, K, V, divisor, mask, dim=-2 if name == "softmax over the wrong axis" else -1)
    if name == "rounded intermediates":
        weights = weights.mul(10).round() / 10
        output = weights @ V
    return weights, output


def mistaken(name: str) -> str:
    heads = name.startswith("heads")
    weights, output = (two_heads if heads else one_head)(name)
    if name == "rounded intermediates":
        printed = rows([[f"{w:.1f}" for w in row] for row in weights.tolist()])
    else:
        printed = rows(weights.tolist())
    given = {"X": X, "W_Q": W_Q, "W_K": W_K, "W_V": W_V}
    return (
        f"given: {{{', '.join(f'{key}: {rows(value.tolist())}' for key, value in given.items())}}}\n"
        f"settings: {{{'heads: 2' if heads else 'causal: true'}}}\n"
        f"printed: [{{stage: weights, values: {printed}}}, {{stage: output, values: {rows(output.tolist())}}}]"
    )


@pytest.mark.parametrize(
    "name",
    [
        "no scale",
        "scale by sqrt(D)",
        "mask flipped",
        "mask left out",
        "mask after the softmax",
        "softmax over the wrong axis",
        "queries and keys swapped",
        "heads merged by view",
        "heads split by view",
        "rounded intermediates",
    ],
)
def test_a_usual_mistake_is_recognised_and_explains_all_from_there_on(check, name):
    report = check(mistaken(name))
    assert report.verdict == "wrong"
    assert report.usual_mistake is not None, report.line
    assert report.usual_mistake.startswith(name)
    assert "explains all " in report.usual_mistake
    assert f"usual mistake: {name}" in report.line


def test_scaling_that_the_settings_do_not_have(check):
    text = mistaken("right").replace("causal: true", "causal: true, scores_divided_by: none")
    assert check(text).usual_mistake.startswith("scale by sqrt(Dk), which the settings do not have")


GIVEN_SCORES = """
given: {{scores: [[3, 1], [2, 2.5]], V: [[1], [5]]}}
settings: {{scores_divided_by: none{causal}}}
printed: [{{stage: weights, values: {weights}}}]
"""


def test_mistakes_of_given_scores(check):
    scores = torch.tensor([[3, 1], [2, 2.5]], dtype=torch.float64)
    for name, weights in {
        "scale by sqrt(16), which the settings do not have": (scores / 4).softmax(-1),
        "scale by sqrt(64), which the settings do not have": (scores / 8).softmax(-1),
        "softmax left out": scores,
        "scores divided by their sum, no softmax": scores / scores.sum(-1, keepdim=True),
    }.items():
        report = check(GIVEN_SCORES.format(causal="", weights=rows(weights.tolist())))
        assert report.usual_mistake == f"{name} (explains all 4 of the 4 printed numbers from there on)"
    masked = GIVEN_SCORES.format(causal=", causal: true", weights="[[1, 0], [0.4444, 0.5556]]")
    assert check(masked).usual_mistake.startswith("scores divided by their sum, no softmax (explains all 4")


def test_a_slip_that_is_carried_on_is_told_from_one_that_is_not(check):
    text = """
given: {{Q: [[1, 0]], K: [[2, 0], [0, 0]], V: [[1, 10], [3, 30]]}}
settings: {{scores_divided_by: none}}
printed:
  - {{stage: weights, values: [[0.5, 0.1]]}}
  - {{stage: output, values: {output}}}
"""
    report = check(text.format(output="[[0.8, 8.0]]"))
    assert (
        report.usual_mistake
        == "what is printed carried on (explains all 2 wrong numbers after weights, not those in it)"
    )
    assert "usual mistake: what is printed carried on" in report.line
    assert check(text.format(output="[[0.8, 9.0]]")).usual_mistake is None


def test_without_a_mistake_it_is_right(check):
    assert check(mistaken("right")).verdict == "right"
    assert check(mistaken("heads, right")).verdict == "right"


def test_a_mistake_that_explains_a_part_says_which(check):
    text = mistaken("no scale")
    right = rows(one_head("right")[1].tolist())
    report = check(text[: text.index("{stage: output")] + f"{{stage: output, values: {right}}}]")
    # 9 weights fit; of the 12 outputs only the 4 of the first row, which sees one key, are the same.
    assert report.usual_mistake == "no scale (explains 13 of the 21 printed numbers from there on)"


def test_a_mistake_must_explain_the_whole_stage(check):
    text = mistaken("no scale").replace("1.0000, 0.0000, 0.0000", "1.0000, 0.0001, 0.0000")
    report = check(text)
    assert report.verdict == "wrong" and report.usual_mistake is None
    assert report.line.endswith("no usual mistake explains it")


def test_the_mistake_behind_errata_is_named_too(check):
    report = check(
        """
given: {scores: [[0, 8], [0, 0]], V: [[4], [8]]}
settings: {scores_divided_by: 2}
printed: [{stage: weights, row: 0, values: [0.0003, 0.9997]}]
errata: [{stage: weights, row: 0, printed: [0.0003, 0.9997], right: [0.0180, 0.9820], why: nothing was divided}]
"""
    )
    assert report.verdict == "right"
    assert "usual mistake behind the errata: no scale (explains all 2" in report.line


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_no_shapes_whatever_end_in_anything_but_a_report_or_one_line(tmp_path_factory, data):
    """Random shapes under random names: an example loads, or is refused as an ExampleError."""
    from attn_lib.worked_examples import ExampleError

    names = data.draw(st.lists(st.sampled_from(GIVEN), min_size=1, max_size=6, unique=True))
    side = st.integers(1, 3)
    given_ = {}
    for name in names:
        shape = data.draw(st.lists(side, min_size=0, max_size=4))
        given_[name] = rows(torch.ones(shape, dtype=torch.int64).tolist())
    chosen = {
        "heads": st.integers(1, 3),
        "kv_heads": st.integers(1, 3),
        "causal": st.just("true"),
        "window": st.integers(1, 3),
        "key_lengths": st.integers(0, 3),
        "mask": st.just("[[1, 0], [1, 1]]"),
        "softcap": st.just("5"),
    }
    keys = data.draw(st.lists(st.sampled_from(list(chosen)), max_size=3, unique=True))
    setting = {key: data.draw(chosen[key]) for key in keys}
    stage = data.draw(st.sampled_from(("Q", "weights", "output")))
    text = (
        "title: t\nsource: {document: d}\n"
        f"given: {{{', '.join(f'{k}: {v}' for k, v in given_.items())}}}\n"
        f"settings: {{{', '.join(f'{k}: {v}' for k, v in setting.items())}}}\n"
        f"printed: [{{stage: {stage}, row: 0, values: [1, 1]}}]\n"
    )
    path = tmp_path_factory.mktemp("fuzz") / "example.yml"
    path.write_text(text, encoding="utf-8")
    try:
        report = check_example(load_example(path))
    except ExampleError as error:
        assert str(error).isprintable() and "example.yml:" in str(error)
    else:
        assert report.checked == 2


GIVEN = (
    *("X", "context", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "Q", "K", "V"),
    *("scores", "scaled_scores", "masked_scores", "weights", "head_outputs", "concatenated", "output"),
)

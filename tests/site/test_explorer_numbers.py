"""Every number on the explorer's screen is the library's, and the arithmetic that is spelled out beside it gives that number."""

import json
import math
import re

import pytest

from attn_lib.worked_examples.rounding import agrees

from .explorer_page import follow, show, text
from .explorer_states import EXAMPLES, library_stages, random_states

STEPS = 5
NUMBER = r"\d+(?:\.\d+)?(?:e[-+]?\d+)?"


def shown(page) -> list[dict]:
    """The cells of the step in view: which number each is, and what stands in it."""
    return page.evaluate(
        """() => [...document.querySelectorAll(".stage [data-name]")].map((cell) => ({
            ...cell.dataset, text: cell.tagName === "INPUT" ? cell.value : cell.textContent }))"""
    )


def plain(number: str) -> str:
    return number.replace("−", "-").replace("∞", "inf")


def value_of(stages: dict, state: dict, cell: dict) -> float:
    matrix = state["given"].get(cell["name"]) or stages[cell["name"]]
    matrix = matrix[int(cell["head"])] if isinstance(matrix[0][0], list) else matrix
    return matrix[int(cell["row"])][int(cell["column"])]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_step_shows_the_librarys_numbers(page, name):
    state, seen = EXAMPLES[name]["state"], set()
    stages = library_stages(state)
    for step in range(STEPS):
        for head in range(state["heads"]):
            show(page, state, step, head)
            for cell in shown(page):
                seen.add(cell["name"])
                if cell["name"] == "mask":
                    assert cell["text"] == "1"
                elif cell["name"] in state["given"]:
                    assert float(cell["text"]) == value_of(stages, state, cell)
                else:
                    assert re.fullmatch(r"-?\d+\.\d{4}", plain(cell["text"]))
                    assert agrees(plain(cell["text"]), value_of(stages, state, cell)), cell
    there = {stage for stage, numbers in stages.items() if numbers}
    alone = state["heads"] == 1 and "W_O" not in state["given"]  # then the heads' output is the output
    assert seen >= there - ({"head_outputs", "concatenated"} if alone else set())
    assert seen >= set(state["given"])


def test_masked_scores_and_empty_rows_are_shown(page):
    state = EXAMPLES["self-attention-love"]["state"] | {"causal": True, "mask": [[0, 1, 1, 1]] + [[1, 1, 1, 1]] * 3}
    show(page, state, step=2)
    first = [cell["text"] for cell in shown(page) if cell["name"] == "masked_scores" and cell["row"] == "0"]
    assert first == ["−∞"] * 4
    show(page, state, step=4)
    assert [cell["text"] for cell in shown(page) if cell["name"] == "output" and cell["row"] == "0"] == ["0.0000"] * 3
    page.locator('td[data-name="output"][data-row="0"]').first.hover()
    assert "No key is left" in text(page, "note")
    page.mouse.move(0, 0)


def depth(colour: str) -> float:
    """How far a colour is from the page's paper, white in the light theme."""
    parts = [float(part) for part in re.findall(r"[\d.]+", colour.removeprefix("color(srgb"))]
    return sum(1 - part for part in parts[:3])


def test_larger_numbers_have_deeper_colours(page):
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    for step, name in ((1, "scores"), (3, "weights")):
        show(page, EXAMPLES["self-attention-love"]["state"], step)
        cells = page.evaluate(
            f"[...document.querySelectorAll('td[data-name={name}]')].map((td) => [td.textContent, getComputedStyle(td).backgroundColor])"
        )
        ranked = [depth(colour) for number, colour in sorted(cells, key=lambda cell: float(cell[0]))]
        assert ranked == sorted(ranked)
        assert 0 < ranked[0] < ranked[-1]
    follow(page, "#self-attention-love-projections")
    colours = page.evaluate(
        "['-0.2', '0.0', '0.8'].map((number) => [...document.querySelectorAll('[data-name=W_V]')].find((it) => it.value === number).parentNode).map((td) => getComputedStyle(td).backgroundColor)"
    )
    assert depth(colours[1]) == 0
    assert len(set(colours)) == 3


EXPLAIN = """async (states) => {
    const { trace } = await import("explorer/arithmetic");
    const { explain, valueAt } = await import("explorer/explanation");
    const { checked } = await import("explorer/state");
    const told = [];
    for (const raw of JSON.parse(states)) {
        const state = checked(raw);
        const stages = trace(state);
        for (const [name, matrix] of Object.entries(stages).filter(([, matrix]) => matrix)) {
            const heads = Array.isArray(matrix[0][0]) ? matrix : [matrix];
            heads.forEach((rows, head) => rows.forEach((row, r) => row.forEach((value, column) => {
                const cell = { name, head, row: r, column };
                const { names, numbers, digits, note, cells } = explain(state, stages, cell);
                told.push({ name, names, numbers, digits, note, value: String(value), from: cells.map((each) => String(valueAt(state, stages, each))) });
            })));
        }
    }
    return JSON.stringify(told);
}"""


def evaluated(arithmetic: str) -> float:
    """What a sum that is spelled out comes to."""
    source = arithmetic.replace("·", "*").replace("√", "sqrt ").replace("e^", "exp")
    source = re.sub(rf"sqrt ({NUMBER})", r"sqrt(\1)", source)
    assert re.fullmatch(rf"(?:{NUMBER}|exp|sqrt|[-+*/() ])+", source), arithmetic
    return eval(source, {"__builtins__": {}}, {"exp": math.exp, "sqrt": math.sqrt})


def halves(line: str) -> tuple[str, str]:
    left, _, right = line.rpartition(" = ")
    return left or right, right


def wrong_explanations(told: list[dict]) -> list[str]:
    """Explanations whose arithmetic does not give the number, or is not made of the numbers that are outlined."""
    found = []
    for each in told:
        value = float(each["value"])
        (spelled, exact), (short, rounded) = halves(plain(each["digits"])), halves(plain(each["numbers"]))
        sources = [float(n) for n in each["from"]]
        if (
            " = " not in each["digits"] and value not in sources
        ):  # given, hidden, or nothing left to add: words say which
            if float(exact) != value or not each["note"]:
                found.append(f"{each['names']} is not said: {each['note']!r}")
            continue
        factors, short_factors = (re.findall(rf"-?{NUMBER}", part) for part in (spelled, short))
        if float(exact) != value or abs(evaluated(spelled) - value) > 1e-12 * max(1, abs(value)):
            found.append(f"{each['digits']} is not {value}")
        if not agrees(rounded, value) or not all(
            agrees(n, float(f)) for n, f in zip(short_factors, factors, strict=True)
        ):
            found.append(f"{each['numbers']} is not {each['digits']} rounded")
        if abs(evaluated(short) - value) > 1e-4 * (1 + sum(abs(float(f)) for f in factors)):
            found.append(f"{each['numbers']} is far from {value}")
        if not set(sources) <= set(map(float, factors)):
            found.append(f"{each['names']} outlines {sources}, and is made of {factors}")
    return found


def test_each_number_is_explained_by_arithmetic_that_gives_it(page):
    states = [it["state"] for it in EXAMPLES.values()] + random_states(40, seed=1)
    told = json.loads(page.evaluate(EXPLAIN, json.dumps(states)))
    assert len(told) > 5000
    assert {each["name"] for each in told} >= {
        "Q",
        "K",
        "V",
        "scores",
        "scaled_scores",
        "mask",
        "masked_scores",
        "weights",
        "head_outputs",
        "output",
    }
    assert wrong_explanations(told) == []


def test_wrong_explanations_are_noticed():
    right = {
        "names": "a",
        "numbers": "0.25 · 2.00 = 0.50",
        "digits": "0.25 · 2 = 0.5",
        "note": "",
        "value": "0.5",
        "from": ["0.25", "2"],
    }
    assert wrong_explanations([right]) == []
    for change in (
        {"digits": "0.25 · 3 = 0.5"},
        {"numbers": "0.25 · 3.00 = 0.50"},
        {"numbers": "0.25 · 2.00 = 0.51"},
        {"from": ["0.25", "7"]},
        {"value": "-Infinity", "digits": "−∞"},
        {"digits": "0.25 · 2 = 0.6"},
    ):
        assert wrong_explanations([right | change]) != [], change


def test_the_first_number_of_the_output_is_spelled_out(page):
    follow(page, "#self-attention-love-output")
    assert text(page, "arithmetic") == "= 0.1688 · 1.10 + 0.2472 · 0.72 + 0.2457 · 1.66 + 0.3382 · 0.36 = 0.8933"
    assert (
        text(page, "names")
        == "output[love, 0] = weights[love, I] · V[I, 0] + weights[love, love] · V[love, 0] + … + weights[love, learning] · V[learning, 0]"
    )
    used = page.evaluate(
        "[...document.querySelectorAll('.used')].map(td => [td.dataset.name, td.dataset.row, td.dataset.column, getComputedStyle(td).outlineStyle])"
    )
    assert used == [["weights", "1", str(s), "solid"] for s in range(4)] + [
        ["V", str(s), "0", "dashed"] for s in range(4)
    ]
    assert text(page, "summary") == "love looks most at learning (0.3382) and becomes [0.8933, 0.9295, 0.8176]"


def test_the_misprint_is_named_where_it_stands(page):
    (erratum,) = EXAMPLES["self-attention-love"]["errata"]
    follow(page, "#self-attention-love-softmax")
    page.locator('td[data-name="weights"][data-row="1"][data-column="3"]').hover()
    assert f"The document prints {erratum['printed']} here; rounded rightly it is {erratum['right']}" in text(
        page, "note"
    )
    page.locator('td[data-name="weights"][data-row="1"][data-column="2"]').hover()
    assert "prints" not in text(page, "note")
    page.mouse.move(0, 0)

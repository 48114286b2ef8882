"""The explorer's arithmetic, held against the library in the browser: every stage, to twelve digits."""

import json
import math
import sys
from functools import cache
from urllib.parse import quote

import pytest

from book.extension.attention_book.explorer import SCRIPTS

from .explorer_states import EXAMPLES, faults, library_stages, random_states

# As text: a browser hands over nested lists number by number, and text at once. JSON has no word for an infinity.
TRACE = """async ([module, states]) => {
    const { trace } = await import(module);
    const word = (_, value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value);
    return JSON.stringify(JSON.parse(states).map(trace), word);
}"""
STATES = random_states(200)
DOCUMENTS = [it["state"] for it in EXAMPLES.values()]


@cache
def right(i: int) -> dict:
    return library_stages(STATES[i])


def computed(page, states: list[dict], module: str = "explorer/arithmetic") -> list[dict]:
    return json.loads(page.evaluate(TRACE, [module, json.dumps(states)]))


def differing(page, chosen: list[int], module: str = "explorer/arithmetic") -> list[tuple[int, list[str]]]:
    """The numbers of the random states whose stages differ from the library's, each with what differs."""
    pairs = zip(chosen, computed(page, [STATES[i] for i in chosen], module), strict=True)
    return [(i, wrong) for i, stages in pairs if (wrong := faults(stages, right(i)))]


def test_documents_examples(page):
    assert len(EXAMPLES) >= 4
    for state, stages in zip(DOCUMENTS, computed(page, DOCUMENTS), strict=True):
        assert faults(stages, library_stages(state)) == []


def test_random_states(page):
    assert differing(page, list(range(len(STATES)))) == []


def test_random_states_are_of_every_kind():
    stages = [right(i) for i in range(len(STATES))]
    weights = [each["weights"] for each in stages if each["weights"]]
    assert any(len(each) == len(each[0]) == len(each[0][0]) == 1 for each in weights)
    assert any(not any(row) for each in weights for head in each for row in head)
    assert any("context" in state["given"] and state["causal"] for state in STATES)
    assert any(
        len(state["tokens"]["query"]) != len(state["tokens"]["key"] or state["tokens"]["query"]) for state in STATES
    )
    assert {state["heads"] for state in STATES} == {1, 2, 3, 4}
    assert any(each["output"] is None for each in stages)
    largest = max(
        abs(x)
        for each in stages
        if each["scaled_scores"]
        for head in each["scaled_scores"]
        for row in head
        for x in row
    )
    assert largest > math.log(
        sys.float_info.max
    )  # a softmax that does not take off the largest score has no number for it


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("score / by", "score / by / by"),
        ("s <= t + S - T", "s <= t"),
        ("Math.exp(score - most)", "Math.exp(score)"),
        ("if (most === -Infinity) return", "if (false) return"),
        ("seen[t][s] ? score : -Infinity", "seen[t][s] ? score : -1e9"),
        ("h * width, (h + 1) * width", "0, width"),
        ("Math.sqrt(Q[0][0].length)", "Q[0][0].length"),
        ("heads.flatMap((head) => head[t])", "heads.map((head) => head[t][0])"),
    ],
)
def test_a_wrong_step_is_noticed(page, line, wrong):
    source = (SCRIPTS / "arithmetic.js").read_text(encoding="utf-8")
    assert line in source
    module = f"data:text/javascript;charset=utf-8,{quote(source.replace(line, wrong))}"
    assert differing(page, list(range(60)), module) != []

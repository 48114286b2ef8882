"""Links into the explorer: a state survives its link, chapters land on their step, and a crafted link does no harm."""

import base64
import json
import re
from urllib.parse import unquote

import pytest

from .browsing import DESKTOP, PHONE
from .building import toc_pages
from .explorer_page import PAGE, follow, link_to, show, state_of, text
from .explorer_states import EXAMPLES, random_states
from .test_pages import article

FIRST = EXAMPLES["self-attention-love"]["state"]
STEPS = ["projections", "scores", "scale", "softmax", "output"]


def as_json(state: dict) -> dict:
    return json.loads(json.dumps(state))


def test_a_state_survives_its_link(page):
    states = [it["state"] for it in EXAMPLES.values()] + random_states(60, seed=2)
    back = page.evaluate(
        """async (states) => {
            const [{ read, write }, { checked }] = [await import("explorer/link"), await import("explorer/state")];
            return JSON.stringify(JSON.parse(states).map((state) => read(write(checked(state), { step: 2, head: 0, row: 0 })).state));
        }""",
        json.dumps(states),
    )
    for state, returned in zip(states, json.loads(back), strict=True):
        allowed = state["mask"] and not any(0 in row for row in state["mask"])  # a mask that hides nothing is none
        assert returned == as_json(state) | ({"mask": None} if allowed else {})


def test_a_link_opens_what_it_was_made_of(page, browser, site):
    state = {**FIRST, "causal": True, "scale": 2.5, "mask": [[1, 1, 1, 1]] * 3 + [[1, 0, 1, 1]]}
    other = browser.new_page()
    other.goto((site / PAGE).as_uri() + link_to(page, state, step=3, row=2))
    other.wait_for_selector(".explorer[data-ready]")
    assert state_of(other) == as_json(state)
    assert other.locator('[aria-current="step"]').get_attribute("data-step") == "3"
    assert text(other, "summary").startswith("machine looks most at")
    other.close()


def coded(data: object) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return "#v1=" + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def crafted(change=lambda state: None, view: dict | None = None) -> str:
    state = as_json(FIRST)
    change(state)
    return coded({"state": state, "view": view or {"step": 0, "head": 0, "row": 0}})


def put(*path):
    """A change of a state: the last argument, put where the others lead."""
    *keys, last, value = path

    def change(state):
        for key in keys:
            state = state[key]
        state[last] = value

    return change


CRAFTED = {
    "not base64": "#v1=%%%",
    "base64 of nothing": "#v1=",
    "another version": "#v9=e30",
    "not UTF-8": coded(b"\xff\xfe"),
    "not JSON": coded(b"{"),
    "a list": coded([]),
    "a number": coded(1),
    "null": coded(None),
    "no state": coded({"view": {"step": 0, "head": 0, "row": 0}}),
    "a megabyte": coded({"state": "x" * 1_000_000, "view": {}}),
    "deep nesting": coded(b"[" * 20000 + b"]" * 20000),
    "deep in a matrix": crafted(put("given", "X", json.loads("[" * 200 + "1" + "]" * 200))),
    "an unknown part": crafted(put("evil", 1)),
    "a prototype": coded(
        json.dumps({"state": as_json(FIRST), "view": {"step": 0, "head": 0, "row": 0}})
        .replace('"causal"', '"__proto__": {"pwned": 1}, "causal"')
        .encode()
    ),
    "a constructor": crafted(put("given", "constructor", [[1]])),
    "a script for a token": crafted(put("tokens", "query", ["<img src=x onerror=pwned=1>" * 2] * 4)),
    "an object for a token": crafted(put("tokens", "query", [{"toString": 1}] * 4)),
    "a token too few": crafted(put("tokens", "query", ["a", "b", "c"])),
    "an empty token": crafted(put("tokens", "query", ["", "b", "c", "d"])),
    "a number as text": crafted(put("given", "X", 0, ["1", 2])),
    "NaN": crafted(put("scale", float("nan"))),
    "a number that is none": crafted(put("given", "X", 0, [None, 0])),
    "too large a number": crafted(put("given", "X", 0, [1e308, 0])),
    "ragged rows": crafted(put("given", "X", 0, [1])),
    "wrong shapes": crafted(put("given", "W_K", [[1, 2]])),
    "no rows": crafted(put("given", "X", [])),
    "too many rows": crafted(put("given", "X", [[1, 2]] * 9)),
    "heads that do not divide": crafted(put("heads", 2)),
    "half a head": crafted(put("heads", 1.5)),
    "a thousand heads": crafted(put("heads", 1000)),
    "a mask of another shape": crafted(put("mask", [[1]])),
    "a mask of twos": crafted(put("mask", [[2] * 4] * 4)),
    "a scale of 0": crafted(put("scale", 0)),
    "a scale in words": crafted(put("scale", "alert(1)")),
    "causal as text": crafted(put("causal", "true")),
    "a step too far": crafted(view={"step": 5, "head": 0, "row": 0}),
    "a row too far": crafted(view={"step": 0, "head": 0, "row": 4}),
    "a head as text": crafted(view={"step": 0, "head": "0", "row": 0}),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_link_gives_one_sentence_and_the_first_example(page, name):
    show(page, EXAMPLES["keys-sentence"]["state"], step=3)
    follow(page, CRAFTED[name])
    message = text(page, "message")
    assert re.fullmatch(r"The link cannot be opened: [^\n]{5,150}\. This is the first example instead\.", message), (
        message
    )
    assert state_of(page) == as_json(FIRST)
    assert page.evaluate("({}).pwned") is None
    follow(page, "#self-attention-love-scores")
    assert text(page, "message") == ""


def test_the_link_that_is_crafted_from_is_itself_right(page):
    follow(page, crafted())
    assert text(page, "message") == ""


def test_markup_in_a_link_stays_text(page):
    follow(page, crafted(put("tokens", "query", ["<img/src=x>", "<i>b</i>", "&amp;", "javascript:1"])))
    assert text(page, "message") == ""
    assert page.locator(".explorer :is(img, i)").count() == 0
    assert page.locator(".stage [data-axis]").evaluate_all("inputs => inputs.map((it) => it.value)") == [
        "<img/src=x>",
        "<i>b</i>",
        "&amp;",
        "javascript:1",
    ]


def test_another_place_on_the_page_changes_nothing(page):
    show(page, FIRST | {"causal": True}, step=3)
    follow(page, "#three-things-to-try")
    assert state_of(page)["causal"] is True


def links_into_the_explorer(site) -> dict[str, list[str]]:
    """Page to the places of the explorer that it links to."""
    found = {}
    for name in toc_pages():
        links = [tag["href"] for tag in article(site / name).select("a[href]")]
        found[name] = [unquote(link.partition("#")[2]) for link in links if re.search(r"explorer\.html#", link)]
    return found


def test_chapters_lead_to_the_step_that_they_are_about(site, page):
    links = links_into_the_explorer(site)
    expected = {
        "01": ["self-attention-love"],
        "03": ["self-attention-love-masked"],
        "04": ["cross-attention-watashiwa"],
        "05": ["multi-head-love"],
    }
    for name, places in links.items():
        for place in places:
            follow(page, "#keys-sentence-softmax")
            follow(page, f"#{place}")
            example, _, step = place.rpartition("-")
            assert page.locator('[aria-current="step"]').get_attribute("data-step") == str(STEPS.index(step)), (
                f"{name}: {place}"
            )
            state = EXAMPLES[example.removesuffix("-masked")]["state"]
            assert state_of(page) == as_json(state) | {"causal": example.endswith("-masked")}
        number = name.removeprefix("notebooks/")[:2]
        for start in expected.get(number, []):
            assert any(place.rpartition("-")[0] == start for place in places), f"{name} does not lead to {start}"
    assert [place for place in links["notebooks/02_self_attention_by_hand.html"]] == [
        f"self-attention-love-{step}" for step in STEPS
    ]


def test_every_step_of_every_example_has_its_place(site, page):
    places = [tag["href"][1:] for tag in article(site / PAGE).select(".explorer-links a")]
    assert {f"{name}-{step}" for name in ("self-attention-love", "cross-attention-watashiwa") for step in STEPS} <= set(
        places
    )
    assert {f"self-attention-love-masked-{step}" for step in STEPS} | {
        "multi-head-love-output",
        "keys-sentence-softmax",
    } <= set(places)
    for place in places:
        follow(page, f"#{place}")
        assert page.locator('[aria-current="step"]').get_attribute("data-step") == str(
            STEPS.index(place.rpartition("-")[2])
        )
        assert page.locator(".stage table").count() >= 1


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_link_lands_where_the_steps_are_in_view(browser, site, viewport):
    page = browser.new_page(viewport=viewport)
    page.goto((site / PAGE).as_uri() + "#self-attention-love-softmax")
    page.wait_for_selector(".explorer[data-ready]")
    assert 0 < page.locator(".stepper").bounding_box()["y"] < 200
    page.close()

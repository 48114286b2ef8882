"""Editing in the explorer as a reader does it: typing, choosing, keys alone, a finger; and what is typed wrongly."""

import pytest

from .browsing import PHONE
from .explorer_page import PAGE, follow, show, state_of, text
from .explorer_states import EXAMPLES, library_stages

LOVE = EXAMPLES["self-attention-love"]["state"]


@pytest.fixture
def page(page):
    """The page at the first step of the first example, whatever was done before."""
    page.mouse.move(0, 0)
    follow(page, "#self-attention-love-projections")
    return page


def number(page, label: str):
    return page.get_by_role("textbox", name=label, exact=True)


def said(page, row: int = 1) -> str:
    """The output that the explorer should speak of, computed by the library."""
    return ", ".join(f"{x:.4f}".replace("-", "−") for x in library_stages(state_of(page))["output"][row])


def test_typing_a_number_changes_the_output_at_once(page):
    before = text(page, "summary")
    number(page, "X, love, column 0").fill("-0.35")
    assert state_of(page)["given"]["X"][1] == [-0.35, 1.2]
    assert f"[{said(page)}]" in text(page, "summary")
    assert text(page, "summary") != before
    assert text(page, "source").endswith("Changed here.")
    page.locator('[data-part="reset"]').click()
    assert text(page, "summary") == before
    assert state_of(page) == follow_state(LOVE)


def follow_state(state: dict) -> dict:
    return {**state, "tokens": {"query": list(state["tokens"]["query"]), "key": None}}


@pytest.mark.parametrize(
    ("label", "name", "place"),
    [("W_Q, 0, column 1", "W_Q", (0, 1)), ("W_K, 1, column 0", "W_K", (1, 0)), ("W_V, 1, column 2", "W_V", (1, 2))],
)
def test_matrices_can_be_edited(page, label, name, place):
    number(page, label).fill("2.5")
    assert state_of(page)["given"][name][place[0]][place[1]] == 2.5
    assert f"[{said(page)}]" in text(page, "summary")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("-0", 0), ("１．５", 1.5), ("−2", -2), ("1e-3", 0.001), (" .5 ", 0.5), ("+1.", 1), ("1e-320", 1e-320)],
)
def test_numbers_of_many_spellings(page, typed, meant):
    number(page, "X, I, column 0").fill(typed)
    assert state_of(page)["given"]["X"][0][0] == meant
    assert text(page, "message") == ""


HOSTILE = [
    "abc",
    "",
    "1e308",
    "NaN",
    "Infinity",
    "-Infinity",
    "1,5",
    "1e",
    "0x10",
    "1001",
    "9" * 60,
    "<img src=x onerror=pwned=1>",
    "'; pwned = 1; '",
    "1 2",
    "--1",
    "１２３４",
]


@pytest.mark.parametrize("typed", HOSTILE)
def test_what_is_no_number_is_said_and_the_last_result_stays(page, typed):
    before = text(page, "summary")
    field = number(page, "X, love, column 0")
    field.fill(typed)
    field.dispatch_event("change")  # the reader goes on
    assert text(page, "message").startswith("X, love, column 0: ")
    assert text(page, "message").endswith("What was there before stays.")
    assert field.get_attribute("aria-invalid") == "true"
    assert text(page, "summary") == before
    assert state_of(page) == follow_state(LOVE)
    field.fill("0.8")
    assert field.get_attribute("aria-invalid") is None
    assert text(page, "message") == ""


def test_a_number_half_typed_is_no_fault_yet(page):
    field = number(page, "X, love, column 0")
    for part in ("", "-", "-.", "1e", "1e-"):
        field.fill(part)
        assert text(page, "message") == ""
        assert field.get_attribute("aria-invalid") is None
    field.press("Tab")
    assert "is not a number" in text(page, "message")


@pytest.mark.parametrize("typed", ["", "   ", "x" * 40, "a\u2028b"])
def test_a_token_that_cannot_be(page, typed):
    field = page.get_by_role("textbox", name="token 2 of X")
    field.evaluate(
        "(field, value) => { field.value = value; field.dispatchEvent(new Event('input', { bubbles: true })); }", typed
    )
    assert text(page, "message").startswith("token 2 of X: ")
    assert state_of(page)["tokens"]["query"][1] == "love"


def test_tokens_are_text_and_nothing_else(page):
    page.get_by_role("textbox", name="token 2 of X").fill("<i>猫</i>")
    assert text(page, "summary").startswith("<i>猫</i> looks most at learning")
    follow_step = page.locator('[data-step="3"]')
    follow_step.click()
    assert page.locator('.matrix th:has-text("<i>猫</i>")').count() == 4
    assert page.locator(".explorer i").count() == 0


def choose(page, part: str, value: str) -> None:
    page.locator(f'[data-part="{part}"]').select_option(value)


def test_self_masked_and_cross(page):
    page.get_by_role("radio", name="masked").check()
    assert state_of(page)["causal"] is True
    assert f"[{said(page)}]" in text(page, "summary")
    page.get_by_role("radio", name="cross").check()
    assert state_of(page)["given"]["context"] == LOVE["given"]["X"]
    assert "copy of X" in text(page, "message")
    number(page, "context, I, column 0").fill("9")
    assert f"[{said(page)}]" in text(page, "summary")
    page.get_by_role("radio", name="self").check()
    assert state_of(page) == follow_state(LOVE)
    page.get_by_role("radio", name="cross").check()
    assert state_of(page)["given"]["context"][0][0] == 9  # what was put aside comes back


def test_scale(page):
    for choice, divisor in (("none", "none"), ("number", 2), ("sqrt_dk", "sqrt_dk")):
        choose(page, "scale", choice)
        assert state_of(page)["scale"] == divisor
        assert f"[{said(page)}]" in text(page, "summary")
    choose(page, "scale", "number")
    divisor = page.locator('[data-part="divisor"]')
    divisor.fill("0.5")
    assert state_of(page)["scale"] == 0.5
    for wrong in ("0", "-1", "none", "1e9"):
        divisor.fill(wrong)
        assert text(page, "message").startswith("Divide by: ")
        assert state_of(page)["scale"] == 0.5


def test_heads(page):
    choose(page, "heads", "3")
    assert state_of(page)["heads"] == 3
    assert [len(state_of(page)["given"][name][0]) for name in ("W_Q", "W_K", "W_V")] == [6, 6, 9]
    assert f"[{said(page)}]" in text(page, "summary")
    choose(page, "head", "3")
    number(page, "W_Q, 0, column 4").fill("7")
    assert state_of(page)["given"]["W_Q"][0][4] == 7
    page.locator('[data-step="4"]').click()
    assert page.locator('td[data-name="head_outputs"]').count() == 12
    choose(page, "heads", "1")
    assert state_of(page) == follow_state(LOVE)


def test_the_mask_is_switched_cell_by_cell(page):
    page.locator('[data-step="2"]').click()
    cell = page.get_by_role("button", name="1, love may attend learning")
    cell.click()
    assert state_of(page)["mask"] == [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1]]
    assert f"[{said(page)}]" in text(page, "summary")
    page.get_by_role("button", name="0, love may not attend learning").press("Enter")
    assert state_of(page)["mask"] is None
    page.get_by_role("checkbox", name="causal mask").check()
    page.get_by_role("button", name="0, love may not attend learning, hidden by the causal mask").click()
    assert "causal mask hides this key" in text(page, "message")
    assert state_of(page)["mask"] is None


def test_a_row_without_a_key(page):
    show(page, LOVE, step=2, row=1)
    for key in ("I", "love", "machine", "learning"):
        page.get_by_role("button", name=f"1, love may attend {key}").click()
    assert text(page, "summary") == "love has no key left to look at and becomes [0.0000, 0.0000, 0.0000]"


@pytest.mark.parametrize("letter", ["T", "D", "Dk", "Dv", "O"])
def test_rows_and_columns(page, letter):
    if not page.locator('[data-part="sizes"]').get_attribute("open"):
        page.locator('[data-part="sizes"]').evaluate("details => { details.open = true }")
    select = page.locator(f'[data-letter="{letter}"]')
    for size in ("8", "1"):
        select.select_option(size)
        assert text(page, "message") == ""
        row = min(1, len(state_of(page)["tokens"]["query"]) - 1)
        assert f"[{said(page, row)}]" in text(page, "summary")
    if letter == "O":
        select.select_option("0")
        assert state_of(page) == follow_state(LOVE)


def test_every_size_of_a_context(page):
    follow(page, "#cross-attention-watashiwa-projections")
    page.locator('[data-part="sizes"]').evaluate("details => { details.open = true }")
    for letter in ("S", "C", "T"):
        page.locator(f'[data-letter="{letter}"]').select_option("5")
        assert f"[{said(page, 0)}]" in text(page, "summary")
    page.get_by_role("radio", name="self").check()  # the matrices are refitted to the narrower X
    assert text(page, "message") == ""
    assert f"[{said(page, 0)}]" in text(page, "summary")


def test_all_examples_can_be_chosen(page):
    for name, example in EXAMPLES.items():
        choose(page, "example", name)
        assert page.locator(".stage table").count() >= 1
        assert state_of(page)["given"] == example["state"]["given"]


def test_an_example_that_begins_later_says_so(page):
    follow(page, "#keys-sentence-softmax")
    page.locator('[data-step="0"]').click()
    assert "begins later, in step 4" in text(page, "sentence")
    page.locator('[data-step="4"]').click()
    assert "no values" in text(page, "sentence")
    page.locator('[data-step="3"]').click()
    number(page, "weights, are, column keys").fill("0.1")
    assert "looks most at table" in text(page, "summary")


# What holds the focus: its matrix, or the part, step, choice or text of the explorer that it is.
REACHED = r"""() => {
    const { dataset, name } = document.activeElement.closest("table") ?? document.activeElement;
    return dataset.matrix ?? dataset.part ?? dataset.copy ?? dataset.step ?? name;
}"""


def focused(page) -> dict:
    return page.evaluate("({ ...document.activeElement.dataset })")


def test_everything_is_reached_by_keyboard_alone(page):
    page.locator('[data-part="example"]').focus()
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(REACHED))
    order = list(dict.fromkeys(reached))
    expected = ["X", "W_Q", "Q", "W_K", "K", "W_V", "V", "Link", "Worked example", "Python"]
    assert [place for place in order if place in expected] == expected
    assert {"explorer-kind", "heads", "scale", "next", "0", "1", "2", "3", "4"} <= set(order)
    assert reached.count("V") == 1  # one tab stop a matrix


def test_arrow_keys_move_within_a_matrix_and_between_steps(page):
    number(page, "X, I, column 0").focus()
    page.keyboard.press("ArrowDown")
    assert (focused(page)["name"], focused(page)["row"]) == ("X", "1")
    page.keyboard.press("ArrowRight")
    assert focused(page)["column"] == "1"
    page.keyboard.type("3")
    assert state_of(page)["given"]["X"][1][1] == 3
    page.keyboard.press("ArrowLeft")  # moves the caret in what was typed
    assert focused(page)["column"] == "1"
    page.keyboard.press("ArrowLeft")
    assert focused(page)["column"] == "0"
    page.keyboard.press("ArrowLeft")
    assert focused(page)["axis"] == "query"  # the token's name
    page.locator('[data-step="0"]').focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert focused(page)["step"] == "2"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.locator('td[data-name="output"][data-row="1"][data-column="0"]').focus()
    page.keyboard.press("End")
    assert focused(page)["column"] == "2"
    assert text(page, "arithmetic").startswith(f"= {library_stages(state_of(page))['weights'][0][1][0]:.4f} · 0.65 + ")
    page.keyboard.press("ArrowUp")
    assert text(page, "names").startswith("output[I, 2] = ")


def test_a_number_is_followed_to_where_it_is_made(page):
    page.locator('[data-step="4"]').click()
    page.locator('td[data-name="weights"][data-row="1"][data-column="0"]').focus()
    page.locator('[data-part="home"]').click()
    assert page.locator('[aria-current="step"]').get_attribute("data-step") == "3"
    assert focused(page) == {"cell": "", "name": "weights", "head": "0", "row": "1", "column": "0"}
    assert text(page, "arithmetic").startswith("= e^(0.8188) / (e^(0.8188) + ")


def test_a_screen_reader_is_told(page):
    assert page.locator('[aria-live="polite"] [data-part="arithmetic"]').count() == 1
    assert page.locator('[data-part="summary"]').get_attribute("role") == "status"
    page.locator('[data-step="3"]').click()
    table = page.get_by_role("grid", name="weights [4, 4]")
    assert table.get_by_role("rowheader").all_inner_texts() == list(LOVE["tokens"]["query"])
    assert table.get_by_role("columnheader").all_inner_texts() == list(LOVE["tokens"]["query"])
    assert table.get_by_role("gridcell", name="0.1688").count() == 1


def test_by_touch(site, browser):
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto((site / PAGE).as_uri() + "#self-attention-love-scale")
    page.wait_for_selector(".explorer[data-ready]")
    page.locator('td[data-name="masked_scores"][data-row="1"][data-column="3"]').tap()
    assert text(page, "names") == "masked[love, learning] = scaled[love, learning]"
    page.get_by_role("button", name="1, love may attend learning").tap()
    assert "looks most at love" in text(page, "summary")
    page.locator('[data-part="next"]').tap()
    page.locator('td[data-name="weights"][data-row="1"][data-column="3"]').tap()
    assert "hidden" in text(page, "note")
    small = page.evaluate(
        """() => [...document.querySelectorAll(".explorer :is(button, select, input, summary, td[data-cell])")].filter((it) => it.checkVisibility())
            .map((it) => [it.closest("label") && it.matches("[type=radio], [type=checkbox]") ? it.closest("label") : it, it])
            .filter(([box]) => Math.min(box.getBoundingClientRect().width, box.getBoundingClientRect().height) < 23.5).map(([, it]) => it.outerHTML.slice(0, 90))"""
    )
    assert small == []
    context.close()

"""What the explorer gives away: a link, a worked example that the checker finds right, three lines of Python that print the same."""

import contextlib
import io
import json
import subprocess
import sys

import pytest
import torch

from .building import ROOT
from .explorer_page import PAGE, follow, show, state_of, text
from .explorer_states import EXAMPLES, library_stages, random_states

STATES = [it["state"] for it in EXAMPLES.values()] + random_states(60, seed=3)
WRITE = """async (states) => {
    const { trace } = await import("explorer/arithmetic");
    const { checked } = await import("explorer/state");
    const { workedExample } = await import("explorer/worked_example");
    const { python } = await import("explorer/python");
    return JSON.parse(states).map(checked).map((state) => [workedExample(state, trace(state), 'A "title": with marks'), python(state, trace(state))]);
}"""


@pytest.fixture(scope="module")
def written(page) -> list[tuple[str, str]]:
    """For each state the worked example and the Python."""
    return page.evaluate(WRITE, json.dumps(STATES))


def check(*paths) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "attn_lib", "check", "--json", *paths]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")


def test_worked_examples_are_right(written, tmp_path):
    paths = []
    for i, (example, _) in enumerate(written):
        paths.append(tmp_path / f"{i}.yml")
        paths[-1].write_text(example, encoding="utf-8")
    result = check(*paths)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert [file["verdict"] for file in json.loads(result.stdout)["files"]] == ["right"] * len(STATES)


def test_worked_examples_say_the_same(written, tmp_path):
    """Read back, a file gives the numbers, tokens and settings that the explorer had."""
    from attn_lib.worked_examples import load_example

    for state, (example, _) in zip(STATES, written, strict=True):
        path = tmp_path / "one.yml"
        path.write_text(example, encoding="utf-8")
        read = load_example(path)
        assert list(read.query_tokens) == list(state["tokens"]["query"])
        assert list(read.key_tokens) == list(state["tokens"]["key"] or state["tokens"]["query"])
        stages = library_stages(state)
        for name, numbers in stages.items():
            got = getattr(read.trace(), name)
            assert (got is None) == (numbers is None)
            if got is not None:
                torch.testing.assert_close(
                    got, torch.tensor(numbers, dtype=torch.float64).view(got.shape), rtol=1e-12, atol=1e-12
                )
        assert {entry.place.stage for entry in read.printed} == {name for name, numbers in stages.items() if numbers}


def test_a_wrong_digit_in_a_worked_example_is_noticed(written, tmp_path):
    path = tmp_path / "wrong.yml"
    right = written[list(EXAMPLES).index("self-attention-love")][0]
    assert "0.3382" in right
    path.write_text(right.replace("0.3382", "0.3383"), encoding="utf-8")
    assert check(path).returncode == 1


def printed(code: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, {})
    return output.getvalue()


@pytest.fixture
def dtype():
    yield
    torch.set_default_dtype(torch.float32)


def test_python_prints_the_same(written, dtype):
    for state, (_, code) in zip(STATES, written, strict=True):
        assert len(code.splitlines()) == 3
        got = printed(code)
        stages = library_stages(state)
        last = [name for name, numbers in stages.items() if numbers][-1]
        tensor = torch.tensor(stages[last], dtype=torch.float64)
        tensor = tensor.squeeze(0) if state["heads"] == 1 and last not in ("concatenated", "output") else tensor
        assert got == f"{tensor}\n", code


def test_python_runs_by_itself(written):
    _, code = written[list(EXAMPLES).index("self-attention-love")]
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "0.8933, 0.9295, 0.8176" in result.stdout, result.stderr


def clipboard(page, works: bool) -> None:
    """A clipboard of the test's own: what is written into it can be read, or it refuses."""
    page.evaluate(
        """(works) => Object.defineProperty(navigator, "clipboard", { configurable: true, value: {
            writeText: async (text) => { if (!works) throw new DOMException("no", "NotAllowedError"); window.copied = text; } } })""",
        works,
    )


def press(page, name: str) -> None:
    page.get_by_role("button", name=f"Copy {name}").click()
    page.wait_for_function("document.querySelector('[data-part=copied]').textContent !== ''")


@pytest.mark.parametrize("name", ["link", "worked example", "Python"])
def test_copying(page, name):
    clipboard(page, works=True)
    follow(page, "#self-attention-love-masked-scale")
    state = state_of(page)
    page.evaluate("document.querySelector('[data-part=copied]').textContent = ''")
    press(page, name)
    assert text(page, "copied").endswith(" copied.")
    assert page.locator('[data-part="text"]').is_hidden()
    copied = page.evaluate("window.copied")
    if name == "link":
        address, _, place = copied.partition("#")
        assert address == page.url.partition("#")[0]
        follow(page, "#keys-sentence-softmax")
        follow(page, f"#{place}")
        assert state_of(page) == state
    else:
        assert copied == page.evaluate(WRITE, json.dumps([state]))[0][name == "Python"].replace(
            '"A \\"title\\": with marks"', '"Attention, edited in the explorer"'
        )


def test_a_closed_clipboard(page):
    clipboard(page, works=False)
    show(page, EXAMPLES["cross-attention-watashiwa"]["state"])
    page.evaluate("document.querySelector('[data-part=copied]').textContent = ''")
    press(page, "worked example")
    box = page.locator('[data-part="text"]')
    assert box.input_value().startswith("title: ")
    assert page.evaluate("document.activeElement.selectionEnd - document.activeElement.selectionStart") == len(
        box.input_value()
    )
    assert "selected below" in text(page, "copied")


def test_the_real_clipboard(browser, served):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{served}/{PAGE}")
    page.wait_for_selector(".explorer[data-ready]")
    press(page, "Python")
    assert page.evaluate("navigator.clipboard.readText()").startswith("import torch; from attn_lib import trace_from")
    context.close()

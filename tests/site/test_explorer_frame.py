"""The explorer as a page: small, of modules, open to everyone, and silent towards the network, from a folder and from a server."""

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from attn_lib.worked_examples import builtin_examples, load_example
from book.extension.attention_book import explorer

from .browsing import DESKTOP, PHONE
from .building import build
from .explorer_page import PAGE, opened, text
from .explorer_states import EXAMPLES
from .test_browser import sticks_out
from .test_pages import read

LARGEST = 60_000  # bytes, scripts and styles together, as they are written
ROOM = [
    "",
    "#self-attention-love-masked-scale",
    "#cross-attention-watashiwa-projections",
    "#multi-head-love-output",
    "#keys-sentence-softmax",
]


def test_small():
    files = list(explorer.SCRIPTS.iterdir())
    assert {path.suffix for path in files} == {".js", ".css"}
    assert sum(path.stat().st_size for path in files) < LARGEST


def test_modules_import_each_other_by_name_and_nothing_else():
    for path in explorer.SCRIPTS.glob("*.js"):
        source = path.read_text(encoding="utf-8")
        names = re.findall(r'^import .*?"([^"]+)";$|^\} from "([^"]+)";$', source, flags=re.MULTILINE)
        for name in map("".join, names):
            assert (explorer.SCRIPTS / f"{name.removeprefix('explorer/')}.js").is_file(), f"{path.name}: {name}"
        for forbidden in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "eval(",
            "fetch(",
            "XMLHttpRequest",
            "document.write",
            "http",
        ):
            assert forbidden not in source, f"{path.name}: {forbidden}"


def test_the_page_carries_its_modules_and_no_handlers(site):
    page = read(site / PAGE)
    imports = json.loads(page.select_one('script[type="importmap"]').string)["imports"]
    assert set(imports) == {f"explorer/{path.stem}" for path in explorer.SCRIPTS.glob("*.js")}
    assert all(address.startswith("data:text/javascript") for address in imports.values())
    assert [tag.name for tag in page.select("article *") if any(name.startswith("on") for name in tag.attrs)] == []


def test_styles_are_on_this_page_only(site):
    sheets = {
        name: [tag["href"] for tag in read(site / name).select("link[rel=stylesheet]")]
        for name in (PAGE, "book/index.html")
    }
    assert any("explorer/explorer.css" in sheet for sheet in sheets[PAGE])
    assert not any("explorer" in sheet for sheet in sheets["book/index.html"])


def test_without_scripts_the_page_says_what_is_missing(site, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / PAGE).as_uri())
    assert page.locator("article noscript p").is_visible()
    assert "needs JavaScript" in page.locator("article noscript p").inner_text()
    link = page.locator("article noscript a").get_attribute("href")
    assert (site / "book" / link).resolve() == site / "notebooks/02_self_attention_by_hand.html"
    assert not page.locator(".choices").is_visible()
    assert page.get_by_role("heading", name="Three things to try").is_visible()
    context.close()


def test_from_a_server(browser, served):
    faults = []
    page = browser.new_page()
    page.on("request", lambda request: request.url.startswith((served, "data:")) or faults.append(request.url))
    page.on("requestfailed", lambda request: faults.append(request.url))
    page.on("console", lambda message: message.type in {"error", "warning"} and faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{served}/{PAGE}#self-attention-love-output")
    page.wait_for_selector(".explorer[data-ready]")
    assert text(page, "arithmetic").endswith("= 0.8933")
    assert faults == []
    page.close()


WATCH = """window.shifted = 0;
new PerformanceObserver((list) => { for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value; })
    .observe({ type: "layout-shift", buffered: true });"""


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_open_to_everyone_and_at_rest(site, browser, viewport, theme):
    context = browser.new_context(viewport=viewport, color_scheme=theme)
    context.add_init_script(WATCH)
    for place in ROOM:
        page = context.new_page()
        page.goto((site / PAGE).as_uri() + place)
        page.wait_for_selector(".explorer[data-ready]")
        page.evaluate("document.fonts.ready")
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        assert sticks_out(page) <= 0
        assert page.evaluate("window.shifted") < 0.05
        found = Axe().run(page, context=".explorer, .explorer-links").response["violations"]
        assert [(it["id"], [node["html"][:200] for node in it["nodes"]]) for it in found] == []
        page.close()
    context.close()


def test_a_page_that_shuts_out_is_noticed(browser, site):
    page, _ = opened(browser, site)
    page.evaluate(
        "document.querySelector('[data-part=example]').parentNode.replaceChildren(document.querySelector('[data-part=example]'))"
    )
    page.evaluate(
        "document.querySelector('.message').style.color = '#eee'; document.querySelector('.message').textContent = 'pale'"
    )
    found = {it["id"] for it in Axe().run(page, context=".explorer").response["violations"]}
    assert {"select-name", "color-contrast"} <= found
    page.close()


def test_matrices_scroll_inside_their_box(site, browser):
    page, wrong = opened(browser, site, PHONE)
    wide = EXAMPLES["self-attention-love"]["state"] | {"causal": True}
    page.evaluate("async state => { (await import('explorer/actions')).change(state); }", wide)
    page.locator('[data-part="sizes"]').evaluate("details => { details.open = true }")
    for letter in ("T", "Dk", "Dv"):
        page.locator(f'[data-letter="{letter}"]').select_option("8")
    for step in range(5):
        page.locator(f'[data-step="{step}"]').click()
        assert sticks_out(page) <= 0
    assert wrong == []
    page.close()


def test_examples_are_the_documents(site):
    stored = json.loads(read(site / PAGE).select_one('script[type="application/json"]').string)
    assert [it["id"] for it in stored] == [
        "self-attention-love",
        *(path.stem.replace("_", "-") for path in builtin_examples() if path.stem != "self_attention_love"),
    ]
    for path in builtin_examples():
        example = load_example(path)
        given = next(it for it in stored if it["id"] == path.stem.replace("_", "-"))["state"]["given"]
        assert {name: tensor.flatten().tolist() for name, tensor in example.given.items()} == {
            name: flat(value) for name, value in given.items()
        }


def flat(nested) -> list[float]:
    return [number for part in nested for number in flat(part)] if isinstance(nested, list) else [nested]


def test_limits_are_those_of_the_scripts(browser, site):
    page, _ = opened(browser, site)
    limits = page.evaluate("async () => ({ ...(await import('explorer/limits')).LIMITS })")
    assert (limits["size"], limits["heads"]) == (explorer.LARGEST, explorer.MOST_HEADS)
    assert page.evaluate("async () => (await import('explorer/link')).STEPS") == list(explorer.STEPS)
    page.close()


def test_an_example_that_cannot_be_shown_is_refused(tmp_path):
    path = tmp_path / "windowed.yml"
    text = next(path for path in builtin_examples() if path.stem == "keys_sentence").read_text(encoding="utf-8")
    path.write_text(f"{text}\nsettings:\n  window: 2\n  softmax: false\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"windowed\.yml: the explorer cannot show window, softmax"):
        explorer.prepare("windowed", load_example(path))


def test_a_link_to_no_step_ends_the_build(copy):
    links = " ".join(f"[a](explorer.md#self-attention-love-{step})" for step in ("softmax", "nowhere"))
    (copy / "book/planted.md").write_text(f"# Planted\n\n{links}\n", encoding="utf-8")
    toc = "format: jb-book\nroot: book/planted\nchapters:\n  - file: book/explorer\n"
    (copy / "_toc.yml").write_text(toc, encoding="utf-8")
    result = build(copy, copy / "out")
    assert result.returncode != 0
    assert "'self-attention-love-nowhere'" in result.stderr
    assert "self-attention-love-softmax" not in result.stderr

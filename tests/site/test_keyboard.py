"""The site with the keyboard alone: every control is reached, seen and worked by keys, nothing holds the focus, and it comes back."""

import pytest

from .browsing import DESKTOP, PHONE
from .test_accessibility import CHAPTER, opened, settle

LIMIT = 400  # presses of Tab; no page has as many stops
# What a reader may want to reach, where it is seen.
STOPS = """[...document.querySelectorAll('a[href], button, summary, input, [tabindex="0"]')].filter(
    tag => tag.checkVisibility({visibilityProperty: true}) && !tag.disabled && tag.tabIndex >= 0)"""
# Where the focus is: its place among the stops, whether it is ringed, and whether any of it lies in the window and not under the bar.
HERE = f"""async () => {{
    await new Promise(requestAnimationFrame);  // what slides in has slid
    const tag = document.activeElement;
    const box = tag.getBoundingClientRect();
    const style = getComputedStyle(tag);
    const bar = document.querySelector(".bd-header-article");
    const top = !bar || bar.contains(tag) || !document.querySelector("article")?.contains(tag) ? 0 : bar.getBoundingClientRect().bottom;
    return {{
        stop: {STOPS}.indexOf(tag),
        name: tag.outerHTML.slice(0, 120),
        ringed: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
        seen: box.bottom > top && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    }};
}}"""


def walk(page, key: str = "Tab") -> list[dict]:
    """Press a key until the focus has left the page, or has been here before; return the stops in order."""
    stops, places = [], set()
    for _ in range(LIMIT):
        page.keyboard.press(key)
        here = page.evaluate(HERE)
        if here["stop"] == -1 or here["stop"] in places:
            break
        places.add(here["stop"])
        stops.append(here)
    return stops


def unreached(page, stops: list[dict]) -> list[str]:
    """Controls that were not among the stops."""
    everything = page.evaluate(f"{STOPS}.map(tag => tag.outerHTML.slice(0, 120))")
    return [name for place, name in enumerate(everything) if place not in {stop["stop"] for stop in stops}]


def focused(page, selector: str) -> bool:
    """Whether an element that fits has the focus, and shows it."""
    return (
        page.evaluate("selector => document.activeElement.matches(selector)", selector)
        and page.evaluate(HERE)["ringed"]
    )


def tab_to(page, selector: str) -> None:
    """Press Tab until an element that fits has the focus."""
    for _ in range(LIMIT):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab never comes to {selector}")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_tab_comes_to_every_control_and_shows_where_it_is(site, browser, viewport, theme):
    with opened(browser, site / CHAPTER, viewport, color_scheme=theme) as page:
        stops = walk(page)
        assert unreached(page, stops) == []
        assert [stop["name"] for stop in stops if not stop["ringed"]] == []
        assert [stop["name"] for stop in stops if not stop["seen"]] == []


def test_shift_tab_goes_all_the_way_back(site, browser):
    with opened(browser, site / CHAPTER, DESKTOP) as page:
        page.locator(".prev-next-area a").last.focus()
        stops = walk(page, "Shift+Tab")
        assert "#main-content" in stops[-1]["name"]


def test_the_first_stop_skips_to_the_text(site, browser):
    with opened(browser, site / CHAPTER, DESKTOP) as page:
        page.keyboard.press("Tab")
        assert focused(page, "#pst-skip-link a")
        box = page.locator("#pst-skip-link a").bounding_box()
        assert box["y"] >= 0 and box["height"] > 10
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


@pytest.mark.parametrize(
    ("viewport", "button"),
    [(DESKTOP, ".search-button-field"), (PHONE, ".search-button")],
    ids=["desktop", "phone"],
)
def test_search_opens_closes_and_gives_the_focus_back(site, browser, viewport, button):
    with opened(browser, site / CHAPTER, viewport) as page:
        tab_to(page, button)
        page.keyboard.press("Enter")
        assert focused(page, "#pst-search-dialog input")
        page.keyboard.press("Escape")
        assert not page.locator("#pst-search-dialog").is_visible()
        assert focused(page, button)


def test_search_by_its_keys_leads_to_a_page(site, browser):
    with opened(browser, site / CHAPTER, DESKTOP) as page:
        page.keyboard.press("Control+K")
        assert focused(page, "#pst-search-dialog input")
        page.keyboard.type("rotary")
        page.keyboard.press("Enter")
        page.wait_for_url("**/search.html?q=rotary")
        page.locator("#search-results li a").first.wait_for()
        assert page.evaluate("document.activeElement.matches('main form input')")
        tab_to(page, "#search-results li a")
        assert focused(page, "#search-results li a")
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "search.html" not in url)
        assert "rotary" in page.locator("article").inner_text().lower()


def test_a_solution_opens_and_closes(site, browser):
    solution = "article .tag_solution summary"
    with opened(browser, site / CHAPTER, PHONE) as page:
        code = page.locator("article .tag_solution pre").first
        assert not code.is_visible()
        tab_to(page, solution)
        page.keyboard.press("Enter")
        assert code.is_visible()
        assert focused(page, solution)
        page.keyboard.press("Space")
        assert not code.is_visible()


def test_what_is_wide_scrolls_by_arrow_keys_also_in_a_fold(site, browser):
    with opened(browser, site / CHAPTER, PHONE) as page:
        page.evaluate("document.querySelectorAll('details').forEach(tag => tag.open = true)")
        settle(page)
        wide = page.locator("article details pre[tabindex='0']").first
        wide.focus()
        assert page.evaluate("document.activeElement.scrollLeft") == 0
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.activeElement.scrollLeft > 0")


def test_what_is_not_wide_is_no_stop(site, browser):
    with opened(browser, site / CHAPTER, DESKTOP) as page:
        settle(page)
        idle = page.evaluate(
            """[...document.querySelectorAll("article [tabindex='0']")].filter(tag => tag.scrollWidth <= tag.clientWidth && tag.scrollHeight <= tag.clientHeight)
                .map(tag => tag.outerHTML.slice(0, 120))"""
        )
        assert idle == []


@pytest.mark.parametrize(("link", "expected"), [("a.right-next", "03_"), ("a.left-prev", "01_")])
def test_the_way_on_and_back(site, browser, link, expected):
    with opened(browser, site / CHAPTER, DESKTOP) as page:
        tab_to(page, link)
        assert focused(page, link)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/{expected}*")


@pytest.mark.parametrize(
    ("button", "dialog"),
    [(".primary-toggle", "#pst-primary-sidebar-modal"), (".secondary-toggle", "#pst-secondary-sidebar-modal")],
    ids=["chapters", "on this page"],
)
def test_a_sidebar_of_a_phone_opens_holds_and_closes(site, browser, button, dialog):
    with opened(browser, site / CHAPTER, PHONE) as page:
        tab_to(page, button)
        assert focused(page, button)
        page.keyboard.press("Enter")
        assert page.locator(dialog).is_visible()
        for _ in range(60):  # round and round: inside, or the browser's own buttons
            page.keyboard.press("Tab")
            assert page.evaluate(
                "dialog => document.activeElement === document.body || document.querySelector(dialog).contains(document.activeElement)",
                dialog,
            )
        page.keyboard.press("Escape")
        assert not page.locator(dialog).is_visible()
        assert focused(page, button)


def test_a_chapter_is_chosen_in_the_sidebar_of_a_phone(site, browser):
    with opened(browser, site / CHAPTER, PHONE) as page:
        tab_to(page, ".primary-toggle")
        page.keyboard.press("Enter")
        tab_to(page, "#pst-primary-sidebar-modal a[href*='07_order']")
        assert page.evaluate(HERE)["ringed"]
        page.keyboard.press("Enter")
        page.wait_for_url("**/07_order.html")


def test_chapters_fold_away_and_say_so(site, browser):
    with opened(browser, site / CHAPTER, DESKTOP) as page:
        tab_to(page, ".primary-toggle")
        assert page.locator(".primary-toggle").get_attribute("aria-expanded") == "true"
        page.keyboard.press("Enter")
        settle(page)
        assert page.locator(".primary-toggle").get_attribute("aria-expanded") == "false"
        assert focused(page, ".primary-toggle")
        page.locator("#pst-primary-sidebar a").first.wait_for(state="hidden")
        page.keyboard.press("Enter")
        page.locator("#pst-primary-sidebar a").first.wait_for(state="visible")


def test_colours_change_and_say_so(site, browser):
    with opened(browser, site / CHAPTER, DESKTOP, color_scheme="light") as page:
        tab_to(page, ".theme-switch-button")
        said = []
        for _ in range(3):
            page.keyboard.press("Enter")
            settle(page)
            assert focused(page, ".theme-switch-button")
            said.append(
                (
                    page.evaluate("document.documentElement.dataset.theme"),
                    page.locator(".theme-switch-button").get_attribute("aria-label"),
                )
            )
        assert said == [
            ("dark", "Colours: dark"),
            ("light", "Colours: light"),
            ("light", "Colours: as the system has them"),
        ]


def test_the_menu_of_downloads_opens_moves_and_closes(site, browser):
    with opened(browser, site / CHAPTER, DESKTOP) as page:
        tab_to(page, ".dropdown-download-buttons > button")
        page.keyboard.press("Enter")
        assert page.locator(".dropdown-menu").first.is_visible()
        page.keyboard.press("ArrowDown")
        assert focused(page, ".dropdown-item")
        page.keyboard.press("Escape")
        assert not page.locator(".dropdown-menu").first.is_visible()
        assert focused(page, ".dropdown-download-buttons > button")


def test_code_is_copied_by_keys(site, browser):
    with opened(browser, site / CHAPTER, DESKTOP) as page:
        tab_to(page, "button.copybtn")
        assert focused(page, "button.copybtn")
        page.keyboard.press("Enter")
        page.locator("button.copybtn.success").wait_for()


def test_faults_are_seen(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(
        "<style>.bare { outline: none } .gone { position: absolute; left: -999px }</style>"
        '<article><a href="#a">one</a><button class="bare">two</button><button class="gone">three</button>'
        '<button onkeydown="if (event.key === \'Tab\') event.preventDefault()">trap</button><a href="#b">five</a></article>',
        encoding="utf-8",
    )
    with opened(browser, path, DESKTOP) as page:
        stops = walk(page)
        assert len(stops) == 4
        assert unreached(page, stops) == ['<a href="#b">five</a>']
        assert [stop["name"] for stop in stops if not stop["seen"]] == ['<button class="gone">three</button>']
        assert '<button class="bare">two</button>' in [stop["name"] for stop in stops if not stop["ringed"]]

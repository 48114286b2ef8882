"""What a page weighs and how fast it shows, as budgets. The server is on this machine, so that a time says what the page does, not the line."""

import pytest

from .browsing import DESKTOP, PHONE, look, serving
from .building import toc_pages

WEIGHT = 600_000  # bytes, packed: HTML, styles, scripts and fonts of a page
PICTURE = 150_000  # bytes
SHIFT = 0.05  # cumulative layout shift: the share of the window that moved, times how far
FIRST_PAINT = 1000  # milliseconds until the first text is seen
TRIES = 5  # a busy machine is slow now and then; a slow page is slow every time


def weight_of(page) -> tuple[int, dict[str, int]]:
    """The bytes that came for a page beside its pictures, and the bytes of each picture, as a server sends them."""
    resources = page.evaluate(
        """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
            .map(({name, encodedBodySize}) => [name, encodedBodySize])"""
    )
    pictures = {name: size for name, size in resources if "/_images/" in name}
    return sum(size for name, size in resources if name not in pictures), pictures


def first_paint(page) -> float:
    """Milliseconds from the request to the first text or picture."""
    return page.evaluate(
        """() => new Promise(seen => new PerformanceObserver(list => {
            const paint = list.getEntriesByName("first-contentful-paint")[0];
            if (paint) seen(paint.startTime);
        }).observe({type: "paint", buffered: true}))"""
    )


def shift(page) -> float:
    """How much of the page moved while nobody touched it, down to its end. The list of contents at its side may follow the reader."""
    page.evaluate(
        """async () => {
            for (let y = 0; y < document.body.scrollHeight; y += window.innerHeight) {
                window.scrollTo({top: y, behavior: "instant"});
                await new Promise(requestAnimationFrame);
            }
        }"""
    )
    page.wait_for_timeout(100)
    return page.evaluate(
        """() => new Promise(done => {
            const moved = entry => entry.sources.some(({node}) => node && !node.parentElement?.closest(".bd-sidebar-secondary"));
            new PerformanceObserver(list => done(list.getEntries().filter(moved).reduce((sum, entry) => sum + entry.value, 0)))
                .observe({type: "layout-shift", buffered: true});
            setTimeout(() => done(0), 100);   // nothing moved: nobody is told
        })"""
    )


def blurred(page) -> list[str]:
    """Pictures with fewer than two dots to a point."""
    return page.evaluate(
        """() => [...document.querySelectorAll("article img")]
            .filter(img => !img.src.endsWith(".svg") && img.naturalWidth < 2 * img.getBoundingClientRect().width - 1)
            .map(img => `${img.src}: ${img.naturalWidth} dots for ${img.getBoundingClientRect().width} points`)"""
    )


@pytest.mark.parametrize("name", toc_pages())
def test_page_is_light_quick_still_and_sharp(served, browser, name):
    address = f"{served}/{name}"
    page, _ = look(browser, address, DESKTOP)
    assert shift(page) < SHIFT
    page.evaluate("document.querySelectorAll('details').forEach(tag => tag.open = true)")
    assert blurred(page) == []
    weight, pictures = weight_of(page)
    assert 0 < weight <= WEIGHT
    assert {name: size for name, size in pictures.items() if size > PICTURE} == {}
    page.close()

    page, _ = look(browser, address, PHONE)
    paints = [first_paint(page)]
    assert shift(page) < SHIFT
    page.close()
    while min(paints) >= FIRST_PAINT and len(paints) < TRIES:
        page, _ = look(browser, address, PHONE)
        paints.append(first_paint(page))
        page.close()
    assert min(paints) < FIRST_PAINT, paints


def test_faults_are_seen(browser, tmp_path):
    (tmp_path / "_images").mkdir()
    (tmp_path / "_images" / "a.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>', "utf-8"
    )
    noise = "".join(map(chr, range(0x4E00, 0x9E00)))
    (tmp_path / "page.html").write_text(
        f'<!doctype html><meta charset="utf-8"><script src="slow.js"></script><article><h1 id="a">moves</h1><p>and so does this, and all that comes after it</p><img src="_images/a.svg">'
        f"<p hidden>{noise}</p><script>setTimeout(() => document.querySelector('#a').style.marginTop = '700px', 50)</script></article>",
        encoding="utf-8",
    )
    # A script that keeps the page waiting for 1.2 seconds.
    (tmp_path / "slow.js").write_text("const end = performance.now() + 1200; while (performance.now() < end);", "utf-8")
    with serving(tmp_path) as address:
        page, _ = look(browser, f"{address}/page.html", DESKTOP)
        page.wait_for_timeout(100)
        assert first_paint(page) > FIRST_PAINT
        assert shift(page) > SHIFT
        weight, pictures = weight_of(page)
        assert weight > 30_000
        assert [*pictures] == [f"{address}/_images/a.svg"]
        page.evaluate("document.querySelector('img').src = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='")
        page.wait_for_timeout(100)
        page.evaluate("document.querySelector('img').style.width = '90px'")
        assert len(blurred(page)) == 1
        page.close()

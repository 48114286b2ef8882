"""The explorer in a browser: opened once, driven through its own modules or as a reader drives it."""

from .browsing import DESKTOP, look

PAGE = "book/explorer.html"


def opened(browser, site, viewport=DESKTOP):
    """The page, and what goes wrong on it from now on."""
    page, faults = look(browser, site / PAGE, viewport)
    page.set_default_timeout(10_000)
    page.wait_for_selector(".explorer[data-ready]")
    return page, faults


def follow(page, place: str) -> None:
    """Go where a link leads, without waiting for the event of the browser."""
    page.evaluate("async place => (await import('explorer/actions')).follow(place)", place)


def show(page, state: dict, step: int = 0, head: int = 0, row: int = 0) -> None:
    """Show a state as a link to it would."""
    follow(page, link_to(page, state, step, head, row))


def link_to(page, state: dict, step: int = 0, head: int = 0, row: int = 0) -> str:
    view = {"step": step, "head": head, "row": row}
    return page.evaluate(
        "async ([state, view]) => (await import('explorer/link')).write((await import('explorer/state')).checked(state), view)",
        [state, view],
    )


def state_of(page) -> dict:
    return page.evaluate("async () => structuredClone((await import('explorer/session')).now.state)")


def text(page, part: str) -> str:
    return page.locator(f'[data-part="{part}"]').inner_text()

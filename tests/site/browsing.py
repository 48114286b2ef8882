"""Opening pages as a reader does, and noting what goes wrong meanwhile; a server that packs what it sends, as public ones do."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

DESKTOP = {"width": 1300, "height": 900}
PHONE = {"width": 390, "height": 844}
LOCAL = ("file:", "data:", "blob:", "http://127.0.0.1:")


def look(browser, address: Path | str, viewport: dict) -> tuple[object, list[str]]:
    """Open a page and return it with what went wrong while it loaded: requests to elsewhere, missing files, errors of scripts."""
    faults = []
    page = browser.new_page(viewport=viewport)
    page.on("request", lambda request: request.url.startswith(LOCAL) or faults.append(f"asks for {request.url}"))
    page.on("requestfailed", lambda request: faults.append(f"did not get {request.url}"))
    page.on("response", lambda response: response.status < 400 or faults.append(f"did not get {response.url}"))
    page.on(
        "console", lambda message: message.type in {"error", "warning"} and faults.append(f"console: {message.text}")
    )
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.goto(address.as_uri() if isinstance(address, Path) else address, wait_until="load")
    page.evaluate("document.fonts.ready")
    return page, faults


PACKED = {".html", ".css", ".js", ".svg", ".json"}


class Packing(SimpleHTTPRequestHandler):
    """Serves files, text packed with gzip."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.suffix not in PACKED or not path.is_file():
            super().do_GET()
            return
        content = gzip.compress(path.read_bytes(), compresslevel=6)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_) -> None:
        """Say nothing: a test's output is for its findings."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of this machine; yields its address, without a slash at its end."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Packing, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()

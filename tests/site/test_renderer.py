"""The renderer of equations waits until it is answered, and leaves nobody behind when it is not."""

import sys

import pytest

from book.extension.attention_book import mathematics

SLOW = """
import socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])     # the file exists now, and nobody listens
time.sleep(0.5)
listener.listen()
time.sleep(60)
"""


class SlowRenderer(mathematics.Renderer):
    @classmethod
    def build_command(cls, socket):
        return [sys.executable, "-c", SLOW, str(socket)]


class BrokenRenderer(mathematics.Renderer):
    @classmethod
    def build_command(cls, socket):
        return [sys.executable, "-c", "raise SystemExit(1)"]


def test_it_waits_for_a_renderer_that_does_not_listen_yet(tmp_path):
    process, connection = SlowRenderer.start_server_process(tmp_path, 5)
    connection.close()
    assert process.poll() is None
    process.kill()
    process.communicate()


def test_a_renderer_that_ends_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        BrokenRenderer.start_server_process(tmp_path, 5)

import nbformat
import pytest

from book.scripts.store_outputs import store

from .synthetic import sound_notebook


@pytest.fixture(scope="session")
def sound(tmp_path_factory):
    """The path of the synthetic notebook, executed and stored."""
    path = tmp_path_factory.mktemp("sound") / "sound.ipynb"
    nbformat.write(sound_notebook(), path)
    store(path)
    return path

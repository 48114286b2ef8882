"""A pytest plugin: a JUnit report says what it was run on, and on which state of the repository.

The page on the book's health needs both: it shows no result that belongs to other files than those here. Pytest's own way to
add such properties, `record_testsuite_property`, does nothing where tests run in several processes.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def report_of(config):
    """The object that writes the report, or None if none is written, or another process writes it."""
    return next(
        (plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "add_global_property")), None
    )


def pytest_sessionstart(session):
    if (report := report_of(session.config)) is None:
        return
    import torch

    from attn_lib.measure.machine import machine, versions
    from book.extension.attention_book.tree import state

    about = {key: machine(torch.device("cpu"))[key] for key in ("processor", "cores", "system")}
    about |= {key: versions()[key] for key in ("python", "torch")}
    about["threads"] = torch.get_num_threads()
    about["workers"] = session.config.getoption("numprocesses", None) or 1
    about["tree"] = state(ROOT)  # before the first test: what is edited meanwhile was not tested
    for name, value in about.items():
        report.add_global_property(name, str(value))


@pytest.hookimpl(tryfirst=True)  # before the report is written
def pytest_sessionfinish(session, exitstatus):
    if (report := report_of(session.config)) is not None:
        report.add_global_property("exit", str(int(exitstatus)))

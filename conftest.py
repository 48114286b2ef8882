"""Loaded by every pytest in this repository, for notebooks as well: `pytest --nbval notebooks` is never without its guards."""

pytest_plugins = ["tests.notebooks.nbval_guards", "tests.run_record"]

"""A package, so that no other `tests` that a dependency leaves in site-packages can take its name."""

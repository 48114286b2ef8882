"""Worked examples of attention: numbers that were printed, as YAML files, and the checker that proves them.

>>> from attn_lib.worked_examples import builtin_examples, check_example, load_example
>>> all(check_example(load_example(path)).verdict == "right" for path in builtin_examples())
True
"""

from attn_lib.worked_examples.checker import check_example
from attn_lib.worked_examples.cost_example import CostExample, PrintedCost
from attn_lib.worked_examples.example import (
    Claim,
    Erratum,
    Number,
    Place,
    Printed,
    WorkedExample,
)
from attn_lib.worked_examples.loader import (
    ExampleError,
    builtin_examples,
    forms,
    load_builtin,
    load_example,
    load_published,
    published_examples,
)
from attn_lib.worked_examples.proof import prove
from attn_lib.worked_examples.report import Finding, Report, Row

__all__ = [
    "Claim",
    "CostExample",
    "Erratum",
    "ExampleError",
    "Finding",
    "Number",
    "Place",
    "Printed",
    "PrintedCost",
    "Report",
    "Row",
    "WorkedExample",
    "builtin_examples",
    "check_example",
    "forms",
    "load_builtin",
    "load_example",
    "load_published",
    "prove",
    "published_examples",
]

"""Worked examples of attention: the documents' numbers as YAML files, and the checker that proves them.

>>> from attn_lib.worked_examples import builtin_examples, check_example, load_example
>>> all(check_example(load_example(path)).verdict == "right" for path in builtin_examples())
True
"""

from attn_lib.worked_examples.checker import Finding, Report, Row, check_example
from attn_lib.worked_examples.example import Claim, Erratum, Number, Place, Printed, WorkedExample
from attn_lib.worked_examples.loader import ExampleError, builtin_examples, load_builtin, load_example
from attn_lib.worked_examples.proof import prove

__all__ = [
    "Claim",
    "Erratum",
    "ExampleError",
    "Finding",
    "Number",
    "Place",
    "Printed",
    "Report",
    "Row",
    "WorkedExample",
    "builtin_examples",
    "check_example",
    "load_builtin",
    "load_example",
    "prove",
]

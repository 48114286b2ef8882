"""Docstrings: every example runs, what is public says its shapes, errors and source, and every source is a reference of the book."""

import doctest
import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
import torch
from pybtex.database import parse_file

import attn_lib

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(module.name for module in pkgutil.walk_packages(attn_lib.__path__, "attn_lib."))
# Nobody calls these by name: the two ways behind `attention`, whose own examples run, how errors are raised and files written,
# the command line and what is behind it.
BEHIND = {"attn_lib.tiled", "attn_lib.fused", "attn_lib.errors", "attn_lib.files", "attn_lib.__main__"}
BEHIND |= {f"attn_lib.commands.{name}" for name in ("check", "measure", "report", "output")}
BEHIND |= {"attn_lib.measure.run"}
PUBLIC = {name: getattr(attn_lib, name) for name in attn_lib.__all__}
DATA = {"AttentionTrace", "AttentionCost"}  # are made of whatever they are given, and refuse nothing


def examples(thing: object, name: str, module: ModuleType, namespace: dict) -> list[doctest.DocTest]:
    """What a module, class or function shows in its docstrings, those of its members among them."""
    found = doctest.DocTestFinder(exclude_empty=True).find(thing, name, module=module, globs=namespace)
    return [test for test in found if test.examples]


def failures(tests: list[doctest.DocTest]) -> str:
    """Run examples; what went wrong, as doctest words it."""
    said: list[str] = []
    for test in tests:
        doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return "".join(said)


def as_on_the_page() -> dict:
    """The names that the API page says its examples begin with."""
    return {"torch": torch, **PUBLIC}


@pytest.fixture(autouse=True)
def plain_printing():
    """Numbers as PyTorch prints them by itself, whatever another test has set; drawn numbers the same every time."""
    torch.set_printoptions(profile="default")
    torch.manual_seed(0)


@pytest.mark.parametrize("name", ["attn_lib", *MODULES])
def test_examples_of_a_module_run(name):
    module = importlib.import_module(name)
    assert failures(examples(module, name, module, {**vars(module), "torch": torch})) == ""


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_run_as_the_page_says(name):
    thing = PUBLIC[name]
    assert failures(examples(thing, name, inspect.getmodule(thing), as_on_the_page())) == ""


def defines_something_public(module: ModuleType) -> bool:
    return any(
        inspect.isroutine(thing) or inspect.isclass(thing)
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    )


def without_an_example(names: list[str]) -> list[str]:
    modules = {name: importlib.import_module(name) for name in names}
    return [
        name
        for name, module in modules.items()
        if defines_something_public(module) and not examples(module, name, module, {})
    ]


def test_every_module_has_an_example():
    assert set(MODULES) >= BEHIND
    assert without_an_example([name for name in MODULES if name not in BEHIND]) == []


def test_no_example_is_skipped():
    modules = {name: importlib.import_module(name) for name in MODULES}
    shown = [test for name, module in modules.items() for test in examples(module, name, module, {})]
    assert len(shown) > 30
    assert [test.name for test in shown for example in test.examples if example.options] == []


def section(text: str, heading: str) -> str:
    """What stands under a heading of a docstring, or nothing."""
    found = re.search(rf"^{heading}:\n((?: {{4}}.*\n?|\n)+)", text, re.MULTILINE)
    return found[1].strip("\n") if found else ""


def members(thing: object) -> dict[str, object]:
    """The public methods and properties that a class has from us; none of a function."""
    bases = [base for base in getattr(thing, "__mro__", ()) if base.__module__.startswith("attn_lib")]
    own = {key: member for base in reversed(bases) for key, member in vars(base).items()}
    hooks = set(dir(torch.nn.Module)) - {"forward", "__call__"}  # what PyTorch calls, not a reader
    return {
        key: member
        for key, member in own.items()
        if isinstance(member, FunctionType | classmethod | property)
        and key not in hooks
        and (key == "__call__" or not key.startswith("_"))
    }


def listed(thing: object) -> set[str]:
    """The arguments and attributes that a docstring names."""
    text = inspect.getdoc(thing) or ""
    return set(re.findall(r"^    (\w+): ", section(text, "Args") + "\n" + section(text, "Attributes"), re.MULTILINE))


def unexplained(thing: object) -> list[str]:
    """Arguments that neither the docstring nor one that it points to names."""
    pointed = [PUBLIC[name] for name in re.findall(r"`(\w+)`", inspect.getdoc(thing) or "") if name in PUBLIC]
    known = set().union({"self", "compute_weights"}, listed(thing), *map(listed, pointed))
    return [f"argument {name}" for name in inspect.signature(thing).parameters if name not in known]


def lacks(name: str, thing: object) -> list[str]:
    """What the docstring of a public name does not say."""
    text, methods = inspect.getdoc(thing) or "", members(thing)
    whole = "\n".join([text, *(inspect.getdoc(each) or "" for each in methods.values())])
    missing = [] if re.search(r"``\[[^`]*\]``", whole) else ["a shape"]
    missing += [heading for heading in ("Source", "In PyTorch") if not section(text, heading)]
    missing += ["Returns"] if inspect.isroutine(thing) and not section(text, "Returns") else []
    if name in DATA:
        return missing
    missing += [] if section(whole, "Raises") else ["Raises"]
    called = [getattr(thing, key) for key, member in methods.items() if not isinstance(member, property)]
    return missing + [argument for each in (thing, *called) for argument in unexplained(each)]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_say_arguments_shapes_errors_and_source(name):
    assert lacks(name, PUBLIC[name]) == []


def works_cited(text: str) -> set[tuple[str, str]]:
    """(first author, year) of each work that a text names: ``Dao et al. 2022``, ``Rabe and Staats 2021``, ``Shazeer 2019``."""
    names = r"([A-Z][^\W\d_]+(?:-[A-Z]+| Team)?)(?: et al\.| and [A-Z][a-z]+)?,? ((?:19|20)\d\d)\b"
    return set(re.findall(names, " ".join(text.split())))


def works_in_the_bibliography() -> set[tuple[str, str]]:
    entries = parse_file(ROOT / "book/references.bib").entries.values()
    first = [entry.persons["author"][0].rich_last_names for entry in entries]
    return {(" ".join(map(str, name)), entry.fields["year"]) for name, entry in zip(first, entries, strict=True)}


def test_every_work_cited_is_in_the_bibliography():
    cited = set()
    for path in (*ROOT.glob("attn_lib/**/*.py"), *ROOT.glob("notebooks/*.ipynb")):
        cited |= works_cited(path.read_text(encoding="utf-8"))
    assert {("Vaswani", "2017"), ("Milakov", "2018"), ("Gemma Team", "2024"), ("DeepSeek-AI", "2024")} <= cited
    assert ("Veličković", "2025") in cited
    assert cited <= works_in_the_bibliography()


# What these checks are there for.


def planted(docstring: str) -> ModuleType:
    """A module of one function that has this docstring."""
    module = ModuleType("planted")
    module.double = FunctionType((lambda x: 2 * x).__code__, vars(module), "double")
    module.double.__doc__, module.double.__module__ = docstring, "planted"
    return module


def test_a_wrong_output_is_seen():
    right, wrong = planted("Twice.\n\n>>> double(2)\n4"), planted("Twice.\n\n>>> double(2)\n5")
    assert failures(examples(right, "planted", right, vars(right))) == ""
    assert "Expected:\n    5\nGot:\n    4" in failures(examples(wrong, "planted", wrong, vars(wrong)))


def test_a_module_without_an_example_is_seen(monkeypatch):
    monkeypatch.setitem(sys.modules, "planted", planted("Twice."))
    assert without_an_example(["planted"]) == ["planted"]


def test_a_docstring_without_its_parts_is_seen():
    assert lacks("double", planted("Twice.").double) == [
        "a shape", "Source", "In PyTorch", "Returns", "Raises", "argument x",
    ]  # fmt: skip
    parts = "Twice ``[T]``.\n\nArgs:\n    x: it.\n\nReturns:\n    y.\n\nRaises:\n\nSource:\n    z.\n\nIn PyTorch:\n    2 * x.\n"
    assert lacks("double", planted(parts).double) == ["Raises"]


def test_a_work_that_is_not_in_the_bibliography_is_seen():
    assert works_cited("As in Nobody et al.\n1999, section 2; Rabe and Staats 2021.") == {
        ("Nobody", "1999"),
        ("Rabe", "2021"),
    }
    assert ("Nobody", "1999") not in works_in_the_bibliography()

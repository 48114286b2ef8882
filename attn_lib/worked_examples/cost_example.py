"""A file of costs in memory, and its check: memory and FLOPs that somebody printed, against :mod:`attn_lib.cost`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from attn_lib.worked_examples.costs import (
    RATIOS,
    READ_AS,
    cost_mistakes,
    count,
    in_unit,
    units,
)
from attn_lib.worked_examples.example import shown
from attn_lib.worked_examples.reading import Fault
from attn_lib.worked_examples.report import Finding, Report, Row
from attn_lib.worked_examples.rounding import agrees, rounded


@dataclass(frozen=True)
class PrintedCost:
    """One printed cost.

    Attributes:
        cost: which, by its name.
        model: whose, where the file names several models, else ``""``.
        sizes: what it is computed from.
        reference: what a ratio relates it to; None where it is none.
        text: its digits.
        unit: as it is printed.
        read_as: the unit that is meant, where the printed one is short for another (GB for GiB), else the same.
        right: the right digits, where the document prints others, else None.
        why: why the printed ones are off, or ``""``.
        says: the claim in words, or ``""``.
    """

    cost: str
    model: str
    sizes: Mapping[str, int]
    reference: int | None
    text: str
    unit: str
    read_as: str
    right: str | None
    why: str
    says: str

    @property
    def value(self) -> float:
        """The computed number of units."""
        return float(in_unit(self.cost, self.sizes, self.read_as, self.reference))


@dataclass(frozen=True)
class CostExample:
    """Printed costs with the sizes that they follow from, not yet known to be right.

    Attributes:
        name: the file, fit to be shown.
        title: what it is about.
        source: where it comes from.
        note: what else there is to say, or ``""``.
        given: how many sizes the file gives.
        costs: what the document prints (:class:`PrintedCost`).

    >>> from attn_lib.worked_examples import load_published
    >>> [f"{cost.text} {cost.unit}" for cost in load_published("kv_vllm_paper_opt13b").costs]
    ['800 KB', '1.6 GB']
    """

    name: str
    title: str
    source: Mapping[str, str]
    note: str
    given: int
    costs: tuple[PrintedCost, ...]


def build_costs(name: str, data: Mapping) -> CostExample:
    """Put together what a file says; its form is that of ``cost_schema.json``.

    Raises:
        Fault: a model that is not there, a size that is missing, a unit that does not fit the cost.
    """
    common = _integers(data.get("sizes", {}))
    models = {model: _integers(sizes) for model, sizes in data.get("models", {}).items()}
    costs = tuple(_printed_cost(entry, common, models, ("costs", i)) for i, entry in enumerate(data["costs"]))
    given = len(common) + sum(map(len, models.values()))
    return CostExample(name, data["title"], data["source"], data.get("note", ""), given, costs)


def _integers(sizes: Mapping[str, str]) -> dict[str, int]:
    return {key: int(value) for key, value in sizes.items()}


def _printed_cost(entry: Mapping, common: Mapping, models: Mapping, path: tuple) -> PrintedCost:
    model, unit = entry.get("model", ""), entry["unit"]
    if model and model not in models:
        raise Fault(
            f"{shown(model)} is not among the models; {', '.join(models) or 'no model'} would fit", (*path, "model")
        )
    if unit not in units(entry["cost"]):
        raise Fault(
            f"{shown(unit)} is no unit of {entry['cost']}; {', '.join(units(entry['cost']))} would fit", (*path, "unit")
        )
    read_as = entry.get("read_as", unit)
    if read_as not in (unit, READ_AS.get(unit)):
        fits = f"{READ_AS[unit]} would fit" if unit in READ_AS else "it stands for itself"
        raise Fault(f"{unit} is not short for {shown(read_as)}; {fits}", (*path, "read_as"))
    if (unit in RATIOS) != ("of" in entry or "compared_with" in entry):
        fits = "of, or compared_with," if unit in RATIOS else "a ratio's unit, x, % or % less,"
        raise Fault(f"{unit} without what it relates to; {fits} would fit", path)
    base = {**common, **models.get(model, {})}
    sizes = {**base, **_integers(entry.get("with", {}))}
    try:
        reference = None
        if "of" in entry:
            reference = count(entry["of"], sizes)
        elif "compared_with" in entry:
            reference = count(entry["cost"], {**base, **_integers(entry["compared_with"])})
        count(entry["cost"], sizes)
    except ValueError as error:
        raise Fault(str(error), path) from None
    if reference == 0:
        raise Fault("what it relates to is nothing; a cost above 0 would fit", path)
    words = {key: entry.get(key, "") for key in ("why", "says")}
    return PrintedCost(
        entry["cost"], model, sizes, reference, entry["printed"], unit, read_as, entry.get("right"), **words
    )


def check_costs(example: CostExample) -> Report:
    """Prove every printed cost; an erratum is one whose right digits the file states."""
    findings = [_compare(cost) for cost in example.costs]
    off = [
        cost
        for status in ("wrong", "erratum")
        for cost, finding in zip(example.costs, findings, strict=True)
        if finding.status == status
    ]
    return Report(
        name=example.name,
        title=shown(example.title, limit=1000),
        rows=tuple(Row(cost.cost, _place(cost), (found,)) for cost, found in zip(example.costs, findings, strict=True)),
        errata=tuple(_check_erratum(cost) for cost in example.costs if cost.right is not None),
        claims=(),
        given=example.given,
        usual_mistake=next(_explanations(off[0]), None) if off else None,
    )


def _place(cost: PrintedCost) -> str:
    words = [shown(word, limit=200) for word in (cost.model, cost.says) if word]
    return ", ".join(words)


def _compare(cost: PrintedCost) -> Finding:
    value, place = cost.value, ", ".join(filter(None, (cost.cost, _place(cost))))
    status = "right" if agrees(cost.text, value) else "wrong" if cost.right is None else "erratum"
    printed, right = f"{cost.text} {cost.unit}", f"{rounded(value, cost.text)} {cost.read_as}"
    says = f"{place}: {printed if status == 'right' else _off(cost)}"
    if status == "right" and cost.read_as != cost.unit:
        says += f", read as {cost.read_as}"
        if agrees(cost.text, float(in_unit(cost.cost, cost.sizes, cost.unit))):
            status, says = "wrong", f"{place}: {printed} is right as it is printed; without read_as it would fit"
    return Finding(place, printed, right, status, says)


def _off(cost: PrintedCost) -> str:
    right, exact = (rounded(cost.value, cost.text, more=more) for more in (0, 2))
    return f"printed {cost.text} {cost.unit}, right {right} {cost.read_as} ({exact})"


def _check_erratum(cost: PrintedCost) -> Finding:
    value, place = cost.value, ", ".join(filter(None, (cost.cost, _place(cost))))
    reason = None
    if agrees(cost.text, value):
        reason = f"the printed {cost.text} {cost.unit} is right"
    elif not agrees(cost.right, value):
        reason = f"{cost.right} is not right, {rounded(value, cost.right)} is"
    says = f"erratum {place}: no longer holds, {reason}" if reason else f"erratum {place}: {_off(cost)}"
    return Finding(place, cost.text, cost.right, "wrong" if reason else "right", says)


def _explanations(cost: PrintedCost) -> Iterator[str]:
    for name, value in cost_mistakes(cost.cost, cost.sizes, cost.read_as, cost.reference):
        if agrees(cost.text, float(value)):
            yield f"{name} (gives {cost.text} {cost.unit})"

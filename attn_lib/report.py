"""Results of measurements as tables and figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from attn_lib.errors import require
from attn_lib.measure.results import MEASURED, Measured, Results, ResultsError
from attn_lib.measure.scaling import crossing, fit_exponent, local_exponents
from attn_lib.plots import plot_curves
from attn_lib.plots.house import BookFigure

LAW_FROM = 512  # shorter sequences measure calls and caches, not the law


def as_text(results: Results) -> str:
    """Everything that a run has found: medians, memory, exponents, and what was not measured.

    >>> as_text(Results({"device": "cpu", "machine": {"processor": "a processor"}, "date": "2026-01-01",
    ...     "settings": {"threads": 1, "dtype": "float32"}, "versions": {"torch": "2", "attn_lib": "1"}}))
    'a processor, 1 thread, processor time; float32; torch 2, attn_lib 1; 2026-01-01; NOT COMPLETE'
    """
    parts = [results.says + ("" if results.complete else "; NOT COMPLETE")]
    for group in ("forward", "training", "kernels"):
        parts += _table(results, group, "milliseconds of one call, ± half the interquartile range", _milliseconds)
        parts += _table(results, group, "MiB held at the peak beside the inputs", _mebibytes)
    parts += [*_laws(results), *_machine(results)]
    gaps = results.gaps()
    return "\n\n".join([*parts, *(["\n".join(gaps)] if gaps else [])])


def _table(results: Results, group: str, heading: str, show: Callable[[Measured], str]) -> list[str]:
    from tabulate import tabulate

    names = results.ways(group)
    rows = []
    for (its_group, size), ways in sorted(results.cases.items()):
        cells = {each.name: show(each) for each in ways if each.status == MEASURED}
        if its_group == group:
            rows.append([size, *(cells.get(name, "") for name in names)])
    if not names:
        return []
    table = tabulate(rows, ["S", *(name.replace(" ", "\n") for name in names)], disable_numparse=True, stralign="right")
    return [f"{group}, {heading}\n{table}"]


def _milliseconds(measured: Measured) -> str:
    return f"{1e3 * measured.median:.3g} ±{measured.spread:.0%}"


def _mebibytes(measured: Measured) -> str:
    return f"{measured.peak_bytes / 2**20:.2f}"


def _laws(results: Results) -> list[str]:
    """Exponents of time in S, and where attention overtakes the projections."""
    lines = []
    for way in results.ways("forward"):
        sizes, seconds = results.series("forward", way)
        long = [index for index, size in enumerate(sizes) if size >= LAW_FROM]
        if len(long) > 1:
            sizes, seconds = [sizes[index] for index in long], [seconds[index] for index in long]
            local = ", ".join(f"{each:.2f}" for each in local_exponents(sizes, seconds))
            lines.append(f"{way}: exponent {fit_exponent(sizes, seconds):.2f} from S = {sizes[0]} on ({local})")
    for way in ("equation", "fused"):
        shared, (projections, attention) = together(results, "forward", ("projections", way))
        try:
            at = crossing(shared, projections, attention)
        except ValueError:  # not within these lengths
            continue
        lines.append(f"{way} takes longer than the projections from S = {at:.0f} on")
    return ["\n".join(lines)] if lines else []


def _machine(results: Results) -> list[str]:
    try:
        peak, bandwidth = results.machine_peak, results.copy_bandwidth
    except ResultsError:
        return []
    return [f"a large matrix product: {peak / 1e9:.3g} GFLOP/s; a copy: {bandwidth / 1e9:.3g} GB/s"]


def together(
    results: Results, group: str, ways: tuple[str, ...], what: str = "seconds"
) -> tuple[list[int], list[list[float]]]:
    """The sizes at which all of these ways were measured, and their numbers there."""
    series = [dict(zip(*results.series(group, way, what), strict=True)) for way in ways]
    shared = sorted(set.intersection(*map(set, series)))
    return shared, [[each[size] for size in shared] for each in series]


def figures(runs: Mapping[str, Results]) -> dict[str, BookFigure]:
    """The figures of one run or several: time and memory against S, each under the name of its file.

    Raises:
        ValueError: no run, or one without a forward pass.
    """
    require(len(runs) > 0, "runs must hold at least one, got none")
    drawn = {}
    for name, results in runs.items():
        drawn[f"{name}_time"] = plot_time({"": results})
        drawn[f"{name}_memory"] = plot_memory(results)
    if len(runs) > 1:
        drawn["side_by_side"] = plot_time(runs, ("fused",))
    return drawn


def plot_time(
    runs: Mapping[str, Results], ways: tuple[str, ...] = ("projections", "equation", "fused", "window")
) -> BookFigure:
    """Time of the forward pass against S: several ways in one run, or one way in several."""
    curves = {f"{way} {name}".strip(): results.series("forward", way) for name, results in runs.items() for way in ways}
    title = next(iter(runs.values())).device_name if len(runs) == 1 else "One way, several machines"
    return _against_length(curves, 1e3, y_label="ms", title=title)


def plot_memory(results: Results, ways: tuple[str, ...] = ("equation", "tiled", "fused")) -> BookFigure:
    """Peak memory of the forward pass against S."""
    curves = {way: results.series("forward", way, "peak_bytes") for way in ways}
    return _against_length(curves, 2**-20, y_label="MiB beside the inputs", title=results.device_name)


def _against_length(
    curves: Mapping[str, tuple[list[int], list[float]]], unit: float, *, y_label: str, title: str
) -> BookFigure:
    curves = {name: dict(zip(*series, strict=True)) for name, series in curves.items() if series[0]}
    require(len(curves) > 0, "there must be a measured forward pass to draw, got none")
    sizes = sorted(set().union(*curves.values()))
    lines = {name: [unit * curve.get(size, math.nan) for size in sizes] for name, curve in curves.items()}
    return plot_curves(sizes, lines, x_label="S, tokens", y_label=y_label, title=title, log_x=True, log_y=True)

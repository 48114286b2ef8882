"""Read a worked-example file: YAML to a :class:`WorkedExample` or a :class:`CostExample`, or one line that says why not."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from attn_lib.errors import require, shape_of
from attn_lib.layers import merge_heads, split_heads
from attn_lib.trace import STAGES
from attn_lib.worked_examples.cost_example import CostExample, build_costs
from attn_lib.worked_examples.example import (
    QUERY_ROWS,
    SCORE_LIKE,
    Claim,
    Erratum,
    Nested,
    Number,
    Place,
    Printed,
    WorkedExample,
    shown,
    within,
)
from attn_lib.worked_examples.reading import Fault, parse_yaml, read_text
from attn_lib.worked_examples.rounding import unit

MAX_STAGE = 2**24  # numbers in one stage: a long column times itself would outgrow any memory
HERE = Path(__file__).parent
PUBLISHED = HERE / "published"
FORMS = HERE / "forms"


class ExampleError(ValueError):
    """A worked example that cannot be read: in one line the file, the place, what came, what would fit."""


def builtin_examples() -> list[Path]:
    """The files of this package: every calculation that the source documents print.

    >>> [path.stem for path in builtin_examples() if "love" in path.stem]
    ['multi_head_love', 'self_attention_love']
    """
    return sorted(HERE.glob("*.yml"))


def load_builtin(name: str) -> WorkedExample:
    """One of :func:`builtin_examples` by its name, without ``.yml``.

    Raises:
        ValueError: there is none of that name; the message lists those that are there.

    >>> load_builtin("self_attention_love").key_tokens
    ('I', 'love', 'machine', 'learning')
    """
    return _by_name(name, builtin_examples())


def published_examples() -> list[Path]:
    """The files of this package with what others have published: calculations on small numbers, and costs.

    >>> [path.stem for path in published_examples() if path.stem.startswith("alammar")]
    ['alammar_illustrated_gpt2_mask', 'alammar_illustrated_transformer']
    """
    return sorted(PUBLISHED.glob("*.yml"))


def forms() -> list[Path]:
    """The forms of this package, files to fill in: of a calculation and of costs. They hold numbers that are right.

    >>> [path.stem for path in forms()]
    ['calculation', 'costs']
    """
    return sorted(FORMS.glob("*.yml"))


def load_published(name: str) -> WorkedExample | CostExample:
    """One of :func:`published_examples` by its name, without ``.yml``.

    Raises:
        ValueError: there is none of that name; the message lists those that are there.

    >>> load_published("alammar_illustrated_transformer").printed_values("weights", "Thinking")
    ['0.88', '0.12']
    """
    return _by_name(name, published_examples())


def _by_name(name: str, files: list[Path]) -> WorkedExample | CostExample:
    paths = {path.stem: path for path in files}
    require(name in paths, f"name must be one of {sorted(paths)}, got {name!r}")
    return load_example(paths[name])


def load_example(path: str | os.PathLike) -> WorkedExample | CostExample:
    """Read a worked example and make sure that all its parts fit together.

    Args:
        path: a YAML file of at most a megabyte, as ``schema.json`` in this package describes it, or
            ``cost_schema.json`` where it holds ``costs``.

    Returns:
        The :class:`WorkedExample`, or the :class:`CostExample`, its numbers not yet checked (:func:`check_example`).

    Raises:
        ExampleError: anything else, in one line: file, line and key, what came, what would fit.

    >>> try:
    ...     load_example("nothing.yml")
    ... except ExampleError as error:
    ...     print(error)
    nothing.yml: cannot be read: No such file or directory; a YAML file would fit
    """
    # A file of this package goes by its name alone: where the package lies is nobody's business.
    ours = Path(path).parent in (HERE, PUBLISHED, FORMS)
    name = shown(Path(path).name if ours else os.fsdecode(path), limit=4096)
    lines: dict[tuple, int] = {}
    try:
        data = parse_yaml(read_text(path), lines)
        costs = isinstance(data, dict) and not data.keys().isdisjoint(("costs", "sizes", "models"))
        _validate(data, lines, _schema("cost_schema.json") if costs else _frame())
        return build_costs(name, data) if costs else _build(name, data)
    except Fault as fault:
        line = fault.line or _line(fault.path, lines)
        where = "".join(f"[{key}]" if isinstance(key, int) else f".{shown(key)}" for key in fault.path).lstrip(".")
        where = f"{name}:{line}" * bool(line) or name, *([where] if where else [])
        raise ExampleError(": ".join((*where, fault.message))) from None


def _line(path: tuple, lines: Mapping[tuple, int]) -> int:
    """The line of a node: its own, or that of the nearest node around it that has one; 0 for the whole file."""
    return next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), 0)


@cache
def _schema(file: str = "schema.json") -> dict:
    return json.loads((HERE / file).read_text(encoding="utf-8"))


@cache
def _frame() -> dict:
    """The schema without the insides of number lists: jsonschema takes a minute for a megabyte of them."""
    return {**_schema(), "$defs": {**_schema()["$defs"], "numbers": True, "printed_numbers": True}}


def _validate(data: object, lines: Mapping[tuple, int], schema: dict) -> None:
    """Hold the data against the schema. The first fault in the file speaks, in the schema's own words."""
    from jsonschema import Draft202012Validator

    if not data:
        raise Fault(f"is empty; {schema['description']} would fit")
    errors = list(Draft202012Validator(schema).iter_errors(data))
    if not errors:
        return
    error = min(errors, key=lambda error: _line(tuple(error.absolute_path), lines))
    path, came, fits = tuple(error.absolute_path), error.instance, error.schema["description"]
    if error.validator == "additionalProperties":
        allowed = list(error.schema["properties"])
        key = next(key for key in came if key not in allowed)
        lower = {name.lower(): name for name in allowed}
        meant = "".join(f" did you mean {lower[near]}?" for near in get_close_matches(key.lower(), lower, n=1))
        raise Fault(f"unknown key;{meant} {', '.join(allowed)} would fit", (*path, key))
    if error.validator == "required":
        missing = ", ".join(key for key in error.validator_value if key not in came)
        raise Fault(f"{missing} missing; {fits} would fit", path)
    if isinstance(came, dict) and error.validator != "type":
        raise Fault(f"{', '.join(came) or 'nothing'}: not the keys that fit; {fits} would", path)
    raise Fault(f"{_kind(came)} does not fit; {fits} would", path)


def _kind(came: object) -> str:
    """What came, in few words."""
    if isinstance(came, str):
        return shown(came)
    return "a mapping" if isinstance(came, dict) else "a list" if came else "an empty list"


def _build(name: str, data: dict) -> WorkedExample:
    tokens = {role: tuple(words) for role, words in data.get("tokens", {}).items()}
    raw = data.get("settings", {})
    heads = int(raw["heads"]) if "heads" in raw else None
    kv_heads = int(raw["kv_heads"]) if "kv_heads" in raw else heads
    settings = {
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "is_causal": raw.get("causal") == "true",
        "window": int(raw["window"]) if "window" in raw else None,
        "scale": _scale(raw.get("scores_divided_by", "sqrt_dk")),
        "softcap": _number(raw["softcap"], ("settings", "softcap")) if "softcap" in raw else None,
        "softmax": raw.get("softmax") != "false",
    }
    example = WorkedExample(
        name=name,
        title=data["title"],
        source=data["source"],
        note=data.get("note", ""),
        query_tokens=tokens.get("query", ()),
        key_tokens=tokens.get("key", tokens.get("query", ())),
        given={key: _given(key, it, kv_heads if key[-1] in "KV" else heads) for key, it in data["given"].items()},
        given_strings=data["given"],
        settings=settings,
    )
    _check_sizes(example)
    example = replace(example, settings={**settings, "mask": _mask(example, raw)})
    example = replace(example, printed=tuple(_each(_printed, example, data, "printed")))
    errata, claims = _each(_erratum, example, data, "errata"), _each(_claim, example, data, "claims")
    return replace(example, errata=tuple(errata), claims=tuple(claims))


def _each(make: Callable, example: WorkedExample, data: dict, key: str) -> Iterator:
    """Every entry of a list, made into what it describes."""
    for i, entry in enumerate(data.get(key, [])):
        yield make(example, entry, (key, i))


@contextmanager
def _at(*path: str | int) -> Iterator[None]:
    """Say where in the file a ValueError of the library comes from."""
    try:
        yield
    except ValueError as error:
        raise Fault(str(error), path) from None


def _number(text: object, path: tuple, kind: str = "number") -> float:
    """A printed number in float64: its form as the schema has it, its size within what float64 holds."""
    schema = _schema()["$defs"][kind]
    if not isinstance(text, str) or len(text) > schema["maxLength"] or not re.fullmatch(schema["pattern"], text):
        raise Fault(f"{_kind(text)} does not fit; {schema['description']} would", path)
    value, exact = float(text), Decimal(text)
    if exact.is_finite() and (math.isinf(value) or (not value and exact) or abs(unit(text)) > 400):
        raise Fault(f"{text} does not fit; a number that float64 can hold would", path)
    return value


def _shape(values: Nested, path: tuple, kind: str = "number") -> list[int]:
    """The shape of nested lists in which every number fits.

    Raises:
        Fault: the lists are ragged, or something in them is no number.
    """
    if not isinstance(values, list) or not values:
        _number(values, path, kind)
        return []
    shapes = [_shape(value, (*path, i), kind) for i, value in enumerate(values)]
    for i, shape in enumerate(shapes):
        if shape != shapes[0]:
            message = f"is of shape {shape}, [0] before it of shape {shapes[0]}"
            raise Fault(f"{message}; rows of one length would fit", (*path, i))
    return [len(values), *shapes[0]]


def _floats(values: Nested) -> float | list:
    return float(values) if isinstance(values, str) else [_floats(value) for value in values]


def _given(key: str, values: Nested, heads: int | None) -> Tensor:
    """A given tensor in float64, its heads split or joined as :func:`attn_lib.trace_from` wants them."""
    path = ("given", key)
    shape = _shape(values, path, "printed_number" if key == "masked_scores" else "number")
    stage, matrix = key in STAGES[:-2], key in ("W_Q", "W_K", "W_V")
    side_by_side = key in ("Q", "K", "V") or matrix  # one wide matrix holds all heads, too
    dims = {1} if key[0] == "b" else {2}
    if heads is not None and (stage or matrix):
        dims = {2, 3} if side_by_side else {3}
    if len(shape) not in dims or (len(shape) == 3 and shape[0] != heads):
        fits = _schema()["properties"]["given"]["properties"][key]["description"]
        raise Fault(f"{key} is of shape {shape}, heads {heads or 'not set'}; {fits} would fit", path)
    tensor = torch.tensor(_floats(values), dtype=torch.float64)
    if matrix and tensor.dim() == 3:
        return merge_heads(tensor)
    with _at(*path):
        return split_heads(tensor, heads) if stage and 3 in dims and tensor.dim() == 2 else tensor


def _scale(text: str) -> float | None:
    """What the file divides by, as the factor that :func:`attn_lib.trace_from` multiplies by."""
    if text in ("sqrt_dk", "none"):
        return None if text == "sqrt_dk" else 1.0
    return 1 / _number(text, ("settings", "scores_divided_by"))


def _check_sizes(example: WorkedExample) -> None:
    """Shapes that fit each other, and no more numbers than a memory holds."""
    rows = max([tensor.shape[-2] for tensor in example.given.values() if tensor.dim() > 1], default=1)
    columns = max(tensor.shape[-1] for tensor in example.given.values())
    size = (example.settings["num_heads"] or 1) * rows * max(rows, columns)
    if size > MAX_STAGE:
        raise Fault(f"could lead to {size} numbers in a stage; at most {MAX_STAGE} would fit", ("given",))
    try:
        example.trace()
    except ValueError as error:
        named = str(error).split()[0]
        places = {"num_heads": ("settings", "heads"), "num_kv_heads": ("settings", "kv_heads")}
        places |= {name: ("given", name) for name in example.given}
        raise Fault(str(error), places.get(named, ("given",))) from None
    # Where a stage is given, no product compares it with what comes before it.
    known = {"queries": ("tokens.query", len(example.query_tokens)), "keys": ("tokens.key", len(example.key_tokens))}
    known = {role: named for role, named in known.items() if named[1]}
    for name in ("X", "context", *STAGES):
        tensor = example.given.get(name, getattr(example.trace(), name, None))
        if tensor is None:
            continue
        counts = {"queries" if name in QUERY_ROWS else "keys": tensor.shape[-2]}
        counts |= {"keys": tensor.shape[-1]} if name in SCORE_LIKE else {}
        for role, count in counts.items():
            first, expected = known.setdefault(role, (name, count))
            if count != expected:
                came = f"{name} of shape {shape_of(tensor)} has {count} {role}, {first} has {expected}"
                path = ("given", name) if name in example.given else ("tokens",)
                raise Fault(f"{came}; equal numbers would fit", path)


def _mask(example: WorkedExample, raw: Mapping) -> Tensor | None:
    """The file's mask and key lengths as one boolean [T, S], True = may be attended."""
    if "mask" not in raw and "key_lengths" not in raw:
        return None
    scores = example.score_like()
    if scores is None:
        raise Fault("nothing given leads to scores that could be masked; Q and K, or scores, would", ("settings",))
    T, S = scores.shape[-2:]
    allowed = torch.ones(T, S, dtype=torch.bool)
    if "mask" in raw:
        shape = _shape(raw["mask"], ("settings", "mask"))
        if shape != [T, S]:
            raise Fault(f"mask is of shape {shape}; [T, S] = {[T, S]} would fit", ("settings", "mask"))
        allowed &= torch.tensor(_floats(raw["mask"])) == 1
    if "key_lengths" in raw:
        lengths = raw["key_lengths"]
        lengths = [int(length) for length in (lengths if isinstance(lengths, list) else [lengths] * T)]
        if len(lengths) != T or max(lengths) > S:
            fits = f"{T} numbers from 0 to S = {S}, or one for all, would fit"
            raise Fault(f"key_lengths are {shown(lengths)}; {fits}", ("settings", "key_lengths"))
        allowed &= torch.arange(S) < torch.tensor(lengths)[:, None]
    return allowed


def _place(example: WorkedExample, entry: Mapping, path: tuple) -> Place:
    stage, found = entry["stage"], {}
    with _at(*path, "stage"):
        example.axes(stage)
    for axis in [axis for axis in ("head", "row", "column") if axis in entry]:
        with _at(*path, axis):
            found[axis] = example.position(stage, axis, entry[axis])
    return Place(stage, **found)


def _numbers(
    example: WorkedExample, place: Place, values: Nested, path: tuple, decimals: int | None = None
) -> tuple[Number, ...]:
    """The single numbers of a printed part, its shape that of the stage's part."""
    axes = example.axes(place.stage)
    shape = _shape(values, path, "printed_number")
    expected = [length for axis, length in axes.items() if getattr(place, axis) is None]
    if shape != expected:
        raise Fault(f"is of shape {shape}; {expected}, the shape of {example.words(place)}, would fit", path)
    return within(place, axes, values, decimals)


def _printed(example: WorkedExample, entry: Mapping, path: tuple) -> Printed:
    place = _place(example, entry, path)
    decimals = int(entry["decimals"]) if "decimals" in entry else None
    return Printed(place, entry["values"], _numbers(example, place, entry["values"], (*path, "values"), decimals))


def _erratum(example: WorkedExample, entry: Mapping, path: tuple) -> Erratum:
    place = _place(example, entry, path)
    printed, right = (_numbers(example, place, entry[key], (*path, key)) for key in ("printed", "right"))
    # The number stands in print, and there it says to how many decimals it holds: the most, if it is printed twice.
    standing = {number: number for number in sorted(example.numbers, key=lambda number: number.decimals or 0)}
    printed = tuple(standing.get(number, number) for number in printed)
    for wrong, mended in zip(printed, right, strict=True):
        if unit(mended.text) > unit(wrong.stated) and mended.text != wrong.text:
            came = f"{mended.text} has fewer digits than {wrong.stated}"
            raise Fault(f"{came}; as many or more would fit", (*path, "right"))
    erratum = Erratum(place, printed, right, entry["why"])
    if not erratum.off:
        raise Fault("is the same as printed; a number that differs would fit", (*path, "right"))
    return erratum


def _claim(example: WorkedExample, entry: Mapping, path: tuple) -> Claim:
    place = _place(example, entry, path)
    if place.head is None and "head" in example.axes(place.stage):
        raise Fault(f"{place.stage} has several heads; a head as well as a row would fit", path)
    (kind,) = entry.keys() - {"stage", "head", "row", "says", "value"}
    stated, here, columns, texts = entry[kind], (*path, kind), (), ()
    if kind in ("carried_on", "divided_by_sum"):
        texts = tuple(number.text for number in _numbers(example, place, stated, here))
    elif kind in ("sum", "printed_sum", "rounded_sum"):
        texts = (stated,)
    else:
        words = [stated] if isinstance(stated, str) else stated
        with _at(*here):
            columns = tuple(example.position(place.stage, "column", word) for word in words)
        texts = (entry["value"],) if kind == "difference" else ()
    for text in texts:
        _number(text, here, "printed_number" if kind in ("carried_on", "divided_by_sum") else "number")
    if kind in ("printed_sum", "rounded_sum"):
        try:
            example.printed_values(place.stage, place.row, head=place.head)
        except KeyError:
            raise Fault(f"{example.words(place)} is not printed as a whole row; sum would fit", here) from None
    return Claim(place, kind, columns, texts, entry.get("says", ""))

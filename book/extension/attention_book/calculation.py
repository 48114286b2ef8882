"""The directive ``worked-example``: one row of a checked calculation, as a small table.

    ```{worked-example} self_attention_love.yml
    :row: love
    ```

Every number in it is one that the checker has proved. Where a document printed a wrong one, the right one is shown and the wrong one named.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from html import escape
from itertools import count
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WORDS = {"scores": "score", "scaled_scores": "scaled score", "weights": "weight"}


class WorkedExample(SphinxDirective):
    """Draw one row of a worked example that ships with the library."""

    required_arguments = 1
    option_spec = {"row": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        from attn_lib.worked_examples import builtin_examples, check_example, load_example

        files = {path.name: path for path in builtin_examples()}
        name, row = self.arguments[0], self.options.get("row")
        if name not in files:
            raise self.error(f"no worked example {name!r}; there are {', '.join(sorted(files))}")
        if row is None:
            raise self.error("worked-example needs the option :row:, the token whose row is drawn")
        self.env.note_dependency(str(Path(files[name])))
        example = load_example(files[name])
        report = check_example(example)
        if report.verdict != "right":
            raise self.error(report.line)
        return [nodes.raw("", draw(example, row), format="html")]


def last_printing(example: Any, stage: str, row: str) -> list[str]:
    """Return one row of a stage as it was printed last: the most rounded printing, which a document calls its result.

    Raises:
        KeyError: the stage was not printed for this row.
    """
    values = example.printed_values(stage, row)
    with suppress(KeyError):
        for printing in count(1):
            values = example.printed_values(stage, row, printing=printing)
    return list(values)


def correct(example: Any, stage: str, row: str, values: list[str]) -> list[str]:
    """Put the errata of one row right, in place, and return a sentence for each of them."""
    notes = []
    for erratum in example.errata:
        if (erratum.place.stage, erratum.place.row) != (stage, example.position(stage, "row", row)):
            continue
        for wrong, right in zip(erratum.printed, erratum.right, strict=True):
            column = right.place.column
            values[column] = right.text
            notes.append(
                f"The {WORDS[stage]} of {example.key_tokens[column]} had been printed as {wrong.text}. Rounded rightly it is {right.text}."
            )
    return notes


def draw(example: Any, row: str) -> str:
    """Return the table as HTML: a row for each key, and the output below."""
    columns = [last_printing(example, stage, row) for stage in WORDS]
    notes = [note for stage, column in zip(WORDS, columns) for note in correct(example, stage, row, column)]
    weights = columns[-1]
    values = example.printed_values("V")
    output = last_printing(example, "output", row)
    widest = max(map(float, weights))
    body = "".join(
        f'<tr><th scope="row">{escape(token)}</th><td>{score}</td><td>{scaled}</td>'
        f"<td>{bar(float(weight) / widest)}{weight}</td>{cells(value)}</tr>"
        for token, score, scaled, weight, value in zip(example.key_tokens, *columns, values, strict=True)
    )
    return (
        '<div class="calculation" role="region" tabindex="0" aria-label="'
        f'{escape(row)}, calculated"><table><thead><tr><th scope="col">token</th>'
        '<th scope="col"><span class="role query">query</span> · <span class="role key">key</span></th>'
        '<th scope="col">÷ √<i>D<sub>k</sub></i></th><th scope="col">weight</th>'
        f'<th scope="colgroup" colspan="{len(output)}"><span class="role value">value</span></th></tr></thead>'
        f"<tbody>{body}</tbody>"
        f'<tfoot><tr><th scope="row" colspan="4">output for {escape(row)}: the values, mixed by weight</th>{cells(output)}</tr></tfoot></table>'
        + "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
        + "</div>"
    )


def cells(numbers: Sequence[str]) -> str:
    """Return numbers as table cells."""
    return "".join(f"<td>{escape(number)}</td>" for number in numbers)


def bar(share: float) -> str:
    """Return a bar as long as its share of the largest weight; the number beside it says the same to a screen reader."""
    return f'<span class="bar" style="width: {3 * share:.2f}em" aria-hidden="true"></span>'


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("worked-example", WorkedExample)

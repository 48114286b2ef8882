"""The directive ``explorer``: the frame of the explorer, the documents' examples in it, and its scripts.

    ```{explorer}
    ```

The scripts in ``book/assets/explorer`` are modules that import each other by name (``explorer/arithmetic``). A browser refuses
module files on a page that is opened from a folder, so the page carries them itself: an import map from each name to the
module as a ``data:`` address. It then works from a folder and from a server alike.

Each step of each example has an id, such as ``self-attention-love-scores``, which chapters link to.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

SCRIPTS = Path(__file__).resolve().parents[2] / "assets" / "explorer"
FIRST = "self_attention_love"
# The five steps: the end of an id, what is written on the page, and what happens there.
STEPS = {
    "projections": (
        "Query, key, value",
        "Each token is multiplied by three matrices. Change a number and watch the output below.",
    ),
    "scores": ("Scores", "Each query meets each key: multiply entry by entry, and add."),
    "scale": (
        "Scale and mask",
        (
            "Divide, so that wide keys do not make large scores. "
            "Then hide what may not be attended: press a cell of the mask to switch it."
        ),
    ),
    "softmax": (
        "Softmax",
        "Each row of scores becomes shares: e to the power of each score, divided by the sum over the row.",
    ),
    "output": ("Weighted sum", "Each value is taken by its share, and the parts are added."),
}
MATRICES = ("X", "context", "W_Q", "W_K", "W_V", "W_O")
STAGES = ("Q", "K", "V", "scores", "scaled_scores", "weights", "head_outputs")
SIZES = {
    "T": "tokens",
    "S": "tokens of the context",
    "D": "numbers a token",
    "C": "numbers a token of the context",
    "Dk": "numbers a query and key",
    "Dv": "numbers a value",
    "O": "output width, by W_O",
}
LARGEST, MOST_HEADS = 8, 4


class Explorer(SphinxDirective):
    """Draw the explorer's frame."""

    def run(self) -> list[nodes.Node]:
        from attn_lib.worked_examples import builtin_examples, load_example

        paths = sorted(builtin_examples(), key=lambda path: path.stem != FIRST)
        for path in (*paths, *SCRIPTS.glob("*")):
            self.env.note_dependency(str(path))
        try:
            examples = [prepare(path.stem, load_example(path)) for path in paths]
        except ValueError as error:
            raise self.error(str(error)) from None
        self.env.metadata[self.env.docname]["explorer_places"] = [name for it in examples for name, _ in places(it)]
        return [nodes.raw("", frame(examples) + scripts(), format="html")]


def prepare(stem: str, example: Any) -> dict[str, Any]:
    """Return a worked example as the explorer's scripts take it.

    Raises:
        ValueError: it uses something that the explorer cannot show.
    """
    settings = example.settings
    heads = settings["num_heads"] or 1
    plain = {"window": None, "softcap": None, "softmax": True, "num_kv_heads": settings["num_heads"]}
    odd = [name for name, value in plain.items() if settings[name] != value]
    odd += [name for name in example.given if name not in (*MATRICES, *STAGES)]
    if odd:
        raise ValueError(f"{example.name}: the explorer cannot show {', '.join(odd)}")

    def nested(name: str) -> list:
        tensor = example.given[name]
        return (tensor.unsqueeze(0) if name in STAGES and settings["num_heads"] is None else tensor).tolist()

    shares = example.key_tokens == example.query_tokens and "context" not in example.given
    scale, mask = settings["scale"], settings["mask"]
    rows = [entry.place.row for entry in example.printed if entry.place.row is not None]
    return {
        "id": stem.replace("_", "-"),
        "title": example.title,
        "source": f"From {example.source['document']}. {example.note}".strip(),
        "first": stem == FIRST,
        "row": rows[-1] if rows else 0,
        "errata": [
            {
                "name": wrong.place.stage,
                "head": wrong.place.head or 0,
                "row": wrong.place.row,
                "column": wrong.place.column,
            }
            | {"printed": wrong.text, "right": right.text, "why": erratum.why}
            for erratum in example.errata
            for wrong, right in erratum.pairs
        ],
        "state": {
            "tokens": {"query": example.query_tokens, "key": None if shares else example.key_tokens},
            "given": {name: nested(name) for name in example.given},
            "heads": heads,
            "causal": settings["is_causal"],
            "mask": None if mask is None else mask.int().tolist(),
            "scale": "sqrt_dk" if scale is None else "none" if scale == 1 else 1 / scale,
        },
    }


def places(example: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the ids of an example's steps with their names; those that it does not lead to are left out."""
    given, name = example["state"]["given"], example["id"]
    if "X" not in given:
        shown = ["output"] if "head_outputs" in given else ["softmax"] if "weights" in given else list(STEPS)[1:]
        return [(f"{name}-{step}", STEPS[step][0]) for step in shown]
    steps = [(f"{name}-{step}", title) for step, (title, _) in STEPS.items()]
    masked = [] if "context" in given else [(f"{name}-masked-{step}", title) for step, (title, _) in STEPS.items()]
    return steps + masked


def option(value: object, text: object) -> str:
    """Return an entry of a list to choose from."""
    return f'<option value="{escape(str(value))}">{escape(str(text))}</option>'


def straight_to(examples: list[dict[str, Any]]) -> str:
    """Return the list of links, a line an example, a link a step."""

    def line(title: str, found: list[tuple[str, str]]) -> str:
        links = ", ".join(f'<a href="#{name}">{escape(step)}</a>' for name, step in found)
        return f"<li>{escape(title)}: {links}</li>"

    lines = []
    for example in examples:
        found = places(example)
        masked = [place for place in found if "-masked-" in place[0]]
        lines.append(line(example["title"], [place for place in found if place not in masked]))
        if masked:
            lines.append(line(f"{example['title']}, with the causal mask", masked))
    return f"<ul>{''.join(lines)}</ul>"


def frame(examples: list[dict[str, Any]]) -> str:
    """Return the explorer without its numbers, which the scripts draw."""
    data = json.dumps(examples, ensure_ascii=False).replace("<", "\\u003c")
    anchors = "".join(f'<span id="{name}"></span>' for it in examples for name, _ in places(it))
    steps = "".join(
        f'<li><button type="button" data-step="{i}" data-sentence="{escape(sentence)}" aria-label="{i + 1} {escape(title)}">'
        f"{i + 1} <span>{escape(title)}</span></button></li>"
        for i, (title, sentence) in enumerate(STEPS.values())
    )
    kinds = "".join(
        f'<label><input type="radio" name="explorer-kind" value="{kind}"> {kind}</label>'
        for kind in ("self", "masked", "cross")
    )
    sizes = "".join(
        f'<label hidden>{escape(text)} <select data-letter="{letter}">'
        + "".join(option(n, n or "none") for n in range(letter != "O", LARGEST + 1))
        + "</select></label>"
        for letter, text in SIZES.items()
    )
    shares = "".join(
        f'<button type="button" data-copy="{what}">Copy {text}</button>'
        for what, text in (("Link", "link"), ("Worked example", "worked example"), ("Python", "Python"))
    )
    return f"""
<div class="explorer" role="region" aria-label="Explorer">
<noscript><style>.explorer > :not(noscript), .explorer-links {{ display: none }}
.explorer[aria-label] {{ min-height: 0; visibility: visible }} .explorer[aria-label] > noscript {{ visibility: visible }}</style>
<p>The explorer runs in your browser and needs JavaScript, which is switched off here.
<a href="../notebooks/02_self_attention_by_hand.html">Self-attention by hand</a> goes through the same five steps on paper.</p></noscript>
<div class="choices">
<label class="wide">Example <select data-part="example"><option value="" disabled>your own numbers</option>{
        "".join(option(it["id"], it["title"]) for it in examples)
    }</select></label>
<div data-part="kinds" role="radiogroup" aria-label="Attention">Attention {kinds}</div>
<label>Heads <select data-part="heads">{"".join(option(n, n) for n in range(1, MOST_HEADS + 1))}</select></label>
<span><label>Divide by <select data-part="scale">{option("sqrt_dk", "√Dk")}{option("none", "nothing")}{
        option("number", "a number")
    }</select></label>
<input data-part="divisor" type="text" size="6" inputmode="decimal" maxlength="30" aria-label="Divide by" hidden></span>
</div>
<nav class="stepper" data-part="stepper" aria-label="Steps">{anchors}
<button type="button" data-part="previous" aria-label="Previous step">‹</button>
<ol data-part="steps">{steps}</ol>
<button type="button" data-part="next" aria-label="Next step">›</button>
</nav>
<p><span data-part="sentence"></span>
<label hidden>Head shown <select data-part="head"></select></label>
<label hidden><input type="checkbox" data-part="causal"> causal mask</label></p>
<p class="message" data-part="message" role="status"></p>
<div class="stage" data-part="matrices"></div>
<div class="panel">
<div data-part="explanation" hidden>
<div aria-live="polite"><p class="names" data-part="names"></p>
<p class="arithmetic" data-part="arithmetic"></p>
<p class="note" data-part="note"></p></div>
<details><summary>All digits</summary><p class="arithmetic" data-part="digits"></p></details>
<button type="button" data-part="home" hidden></button>
</div>
<p data-part="summary" role="status"></p>
</div>
<p class="source"><span data-part="source"></span> <button type="button" data-part="reset" hidden>Undo all changes</button></p>
<details class="sizes" data-part="sizes"><summary>Rows and columns</summary><p>At most {LARGEST} tokens, and {
        LARGEST
    } numbers each. New places start at 0.</p>{sizes}</details>
<div class="share" data-part="share">{shares} <span data-part="copied" role="status"></span>
<textarea data-part="text" aria-label="Text to copy" rows="6" readonly spellcheck="false" hidden></textarea></div>
<script type="application/json" data-part="examples">{data}</script>
</div>
<details class="explorer-links"><summary>Straight to a step of an example</summary>{straight_to(examples)}</details>
"""


def scripts() -> str:
    """Return the modules as an import map of ``data:`` addresses, and the line that starts them."""
    modules = {}
    for path in sorted(SCRIPTS.glob("*.js")):
        name = f"explorer/{path.stem}"
        source = f"{path.read_text(encoding='utf-8')}//# sourceURL={name}.js\n"  # what the browser's tools call it
        modules[name] = f"data:text/javascript;charset=utf-8,{quote(source)}"
    return (
        f'<script type="importmap">{json.dumps({"imports": modules})}</script>'
        '<script type="module">import "explorer/main";</script>'
    )


def name_places(app: Sphinx, doctree: nodes.document) -> None:
    """Let pages link to the steps of the examples as they link to headings."""
    metadata = app.env.metadata[app.env.docname]
    for name in metadata.get("explorer_places", ()):
        metadata.setdefault("myst_slugs", {})[name] = (0, name, name)


def add_style(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    """Give the page of the explorer, and no other, its styles."""
    if "explorer_places" in app.env.metadata.get(pagename, {}):
        app.add_css_file("explorer/explorer.css")


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("explorer", Explorer)
    app.connect("doctree-read", name_places)
    app.connect("html-page-context", add_style)

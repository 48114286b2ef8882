"""A small notebook that breaks no rule: the guards' tests plant their faults in copies of it. It needs no torch, so it starts fast."""

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

DRAW = """\
import matplotlib.pyplot as plt
from matplotlib_inline.backend_inline import set_matplotlib_formats

set_matplotlib_formats("retina")

def draw(label, width=5):
    figure, axes = plt.subplots(figsize=(width, 3))
    axes.imshow([[0.1, 0.9], [0.4, 0.6]], cmap="Blues", vmin=0, vmax=1)
    axes.text(0, 0, label, fontsize=8)"""
CHECK = """\
def check_half(answer):
    print("Not answered yet" if answer is ... else "Right." if answer == 0.893 / 2 else "Not yet")

check_half(answer)"""
ALT = "a matrix of two rows and two columns, darkest where love looks at learning"


def code(source, *tags, alt=None):
    metadata = {"tags": list(tags)} if tags else {}
    if alt:
        metadata["mystnb"] = {"image": {"alt": alt}}
    return new_code_cell(source, metadata=metadata)


def sound_notebook():
    return new_notebook(
        cells=[
            new_markdown_cell("# Small weights\n\nThe output is $[0.893, -0.930]$, then `0.8176`."),
            code("print('output [0.893, 0.930]')"),
            code("0.8176"),
            code("from IPython.display import HTML\n\nHTML('<b style=\"opacity: 0.77\">0.3382</b>')"),
            new_markdown_cell(
                "## The picture\n\n| fact | source |\n| --- | --- |\n| 99.5 heads | [a paper](https://example.org/paper) |"
            ),
            code(DRAW),
            code("draw('0.893')", alt=ALT),
            new_markdown_cell("## What goes wrong\n\nA scale of 0.25 is refused."),
            code("raise ValueError('scale 0.25')", "raises-exception"),
            new_markdown_cell("## Measured"),
            code("import os\n\nprint('process', os.getpid())", "claims", "nbval-ignore-output"),
            code("print('a process has a number:', os.getpid() > 0)", "claims"),
            new_markdown_cell("## Exercises\n\n### Exercise 1: halve it\n\nHalve 0.893."),
            code("answer = ...", "exercise"),
            code(CHECK, "check"),
            code("check_half(0.4465)", "solution", "hide-cell"),
        ]
    )

"""The guards of the book's pages. What an author of a notebook has to know:

* **Print, and it is compared.** Every text that a cell prints is stored by `make store` and compared, character by character, by
  `make notebooks`; figures are compared as pictures. So print what is the same on every machine: hand numbers, integers,
  verdicts. No time, date, version, path or address, nothing on stderr. To show a number to three digits, print three digits.
* **Say only what is printed.** Each decimal number in the prose, the formulas and the alt texts of a notebook stands, digit by
  digit, in the output of one of its cells: 0.93 is not excused by a printed 0.930. Exempt are rows of a table that link to their
  source, the text of a link whose address holds the number, and places in a source (section 3.2). Pages in book/ have no cells:
  a number comes in as `{{ name }}`, or in a table row with its source.
* **Store, do not save.** `make store` runs the notebook from top to bottom and writes it; what an editor saved is refused. If a
  cell fails, or writes to stderr, nothing is written.
* **One figure a cell**, with `"mystnb": {"image": {"alt": "..."}}` in the cell's metadata: at least four words that say what is
  seen. At most 150 kB.
* **An error that is meant** has the tag `raises-exception`; its type and message are compared, and it must come.
* **What differs from run to run** (times, training) has the tag `claims`: its figure may differ, its text may not. If its text
  must differ too, add `nbval-ignore-output`, and let the next code cell print the verdict, "exponent between 1.8 and 2.2: True".
  A cell that shows recorded results where there is no GPU has the tag `device`. No cell may be skipped (`nbval-skip`).
* **Exercises**: under a heading `### Exercise 1: ...`, three code cells with these tags, in this order: `exercise` (what the
  reader fills in, `answer = ...`; it runs as it stands), `check` (defines `check_...(answer)` and calls
  it, which prints *Not answered yet*), `solution` with `hide-cell` (calls the same function, which prints *Right.*). They are
  numbered from 1, and every notebook has at least four. `attn_lib.exercises.check_answer` prints these words.
* **The end**: a last cell with `## What to take away`, whose last line is `Next: ` and a link.
* **What a search engine shows** of a page are its first sentences. Where these do not stand alone, or hold formulas, set
  `"description"` in the notebook's metadata, or in the front matter of a page in book/: one sentence or two, 160 characters at most.
* **CommonMark**, tables, `$...$` and `<details>` only, in notebooks. One `#` title; no heading level is jumped.

nbval_guards.py holds what needs a kernel (see `conftest.py` at the root), cell_guards.py, prose_guards.py and toc_guard.py what
needs none; test_pages.py applies these, and the test_..._bite(s).py show each of them the fault that it is there for.
"""

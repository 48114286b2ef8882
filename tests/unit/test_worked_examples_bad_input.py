"""Files that cannot be read: one line each, with file, line, what came and what would fit."""

from __future__ import annotations

import os
import time

import pytest

from attn_lib.worked_examples import ExampleError, builtin_examples, check_example, load_builtin, load_example
from attn_lib.worked_examples.reading import MAX_BYTES

LOVE = next(path for path in builtin_examples() if path.stem == "self_attention_love").read_text(encoding="utf-8")
HEAD = "title: t\nsource: {document: d}\n"


def swap(old: str, new: str) -> str:
    """The self-attention file with one thing replaced."""
    assert LOVE.count(old) == 1, old
    return LOVE.replace(old, new)


def with_setting(setting: str) -> str:
    return swap("settings:\n", f"settings:\n  {setting}\n")


def with_number(number: str) -> str:
    return swap("- [0.8, 1.2]", f"- [0.8, {number}]")


def refusal(path) -> str:
    """The one line that a file is refused with, without its name."""
    with pytest.raises(ExampleError) as caught:
        load_example(path)
    message = str(caught.value)
    assert message.isprintable()  # so it is one line, and steers no terminal
    assert message.startswith(str(path))
    return message[len(str(path)) :]


NUMBER = "a finite decimal number as printed, such as 0.930, -3 or 1.2e-5 would"
BAD = {
    # not an example at all
    "empty": ("", ": is empty; title, source, given"),
    "blank": ("\n  \n", ": is empty"),
    "comment": ("# only this\n", ": is empty"),
    "dashes": ("---\n", ": is empty"),
    "word": ("hello", ": hello does not fit; title, source, given"),
    "list": ("- 1\n- 2\n", ": a list does not fit; title"),
    "not yaml": ("a: [1, 2\nb: }", ":2: is not YAML: "),
    "tab": ("title: t\n\tsource: d", ":2: is not YAML: "),
    "unclosed": ('title: "t', ":1: is not YAML: "),
    # what YAML can do and numbers do not need
    "second document": (
        LOVE + "---\na: b\n",
        f":{LOVE.count(chr(10)) + 1}: a second document begins here; one example",
    ),
    "alias": ("a: &a [1]\nb: *a\n", ":1: an alias, anchor or tag; plain words"),
    "laughs": (
        "a: &a [x]\n" + "".join(f"b{i}: &b{i} [*a, *a, *a]\n" for i in range(30)),
        ":1: an alias, anchor or tag",
    ),
    "dangling alias": ("title: *a\n", ":1: an alias, anchor or tag"),
    "tag": ("title: !!python/object/apply:os.system [id]\n", ":1: an alias, anchor or tag"),
    "key of a list": ("[1, 2]: x\n", ":1: a list or mapping as a key; a word would fit"),
    "merge": (HEAD + "given: {<<: {X: [[1]]}}\nclaims: []\n", ":3: given.<<: unknown key"),
    "control character": (swap("token love in", "token \x1b[31mlove in"), ":1: control character '\\x1b'; printable"),
    "null character": ("title: t\nnote: a\0b\n", ":2: control character '\\x00'"),
    "escaped control": ('title: "\\e[31m"\n', ":1: control character in '\\x1b[31m'"),
    "surrogate": ('title: "\\ud800"\n', ":1: "),
    "line end in a token": (
        HEAD + 'tokens: {query: ["a\\nb"]}\ngiven: {weights: [[1]]}\nclaims: [{stage: weights, row: c, sum: 1}]',
        r":5: claims[0].row: 'c' is not in weights; 0 to 0, 'a\nb' would fit",
    ),
    "twice": (swap("  W_K:\n", "  W_Q:\n"), ":19: given.W_Q: this key stands twice"),
    "twice at the top": (LOVE + "title: t\n", f":{LOVE.count(chr(10)) + 1}: title: this key stands twice"),
    # keys
    "unknown key": (swap("settings:", "setings:"), ":26: setings: unknown key; did you mean settings? title, source"),
    "other case": (swap("  W_Q:", "  w_q:"), ":16: given.w_q: unknown key; did you mean W_Q? X, context, W_Q"),
    "far from any": (swap("settings:", "zzz:"), ":26: zzz: unknown key; title, source, note, tokens, given"),
    "no title": (
        swap("title:", "note:").replace("note: Positions", "#"),
        ": title missing; title, source, given, and at",
    ),
    "nothing to prove": (HEAD + "given: {X: [[1]]}\n", ": title, source, given: not the keys that fit; title, source"),
    "empty source": ("title: t\nsource: {}\ngiven: {X: [[1]]}\nclaims: []", ":2: source: document missing; where"),
    "two claims in one": (
        swap("order: [learning, love, machine, I]", "largest: learning, smallest: I"),
        ":69: claims[3]: stage, row, larg",
    ),
    "no claim": (swap("order: [learning, love, machine, I], ", ""), ":69: claims[3]: stage, row, says: not the keys"),
    "difference without value": (swap(" value: 0.0015,", ""), ":70: claims[4]: "),
    "empty list": (HEAD + "given: {X: [[1]]}\nprinted: []\n", ":4: printed: an empty list does not fit"),
    "a word for a list": (HEAD + "given: {X: [[1]]}\nprinted: none\n", ":4: printed: none does not fit; what the"),
    # settings
    "yes": (with_setting("causal: yes"), ":27: settings.causal: yes does not fit; true or false"),
    "no heads": (with_setting("heads: 0"), ":27: settings.heads: 0 does not fit; number of heads, 1 or more"),
    "half a head": (with_setting("heads: 1.5"), ":27: settings.heads: 1.5 does not fit"),
    "huge": (with_setting(f"heads: {'9' * 5000}"), ":27: settings.heads: 9999"),
    "heads that do not divide": (
        with_setting("heads: 3"),
        ":27: settings.heads: num_heads = 3 must divide the width 2",
    ),
    "key heads": (with_setting("heads: 2\n  kv_heads: 3"), ":28: settings.kv_heads: num_kv_heads = 3 must divide"),
    "divided by nothing": (swap("sqrt_dk", "0"), ":27: settings.scores_divided_by: 0 does not fit; sqrt_dk"),
    "divided by less": (swap("sqrt_dk", "-2"), ":27: settings.scores_divided_by: -2 does not fit"),
    "divided by too little": (swap("sqrt_dk", "1e-900"), ":27: settings.scores_divided_by: 1e-900 does not fit"),
    "mask": (with_setting("mask: [[1, 0], [1, 1]]"), ":27: settings.mask: mask is of shape [2, 2]; [T, S] = [4, 4]"),
    "mask of words": (with_setting("mask: [[1, x]]"), ":27: settings.mask[0][1]: x does not fit; 0 or 1 would"),
    "too long": (with_setting("key_lengths: 7"), ":27: settings.key_lengths: key_lengths are [7, 7, 7, 7]; 4 numbers"),
    "too few lengths": (with_setting("key_lengths: [1, 2]"), ":27: settings.key_lengths: key_lengths are [1, 2]; 4"),
    "window": (with_setting("window: 0"), ":27: settings.window: 0 does not fit; how many keys a query sees"),
    # shapes
    "ragged": (swap("- [1.5, 0.7]", "- [1.5]"), ":14: given.X[2]: is of shape [1], [0] before it of shape [2]"),
    "ragged below": (swap("- [1.5, 0.7]", "- [[1.5], 0.7]"), ":14: given.X[2][1]: is of shape [], [0] before it of"),
    "rows": (swap("- [0.1, 0.9]", "- [0.1, 0.9]\n    - [1, 1]"), ":16: given.W_Q: W_Q of shape [3, 2] does not fit X"),
    "one number": (HEAD + "given: {X: 1}\nclaims: [{stage: Q, row: 0, sum: 1}]", ":3: given.X: X is of shape []"),
    "one row": (
        HEAD + "given: {Q: [1, 2]}\nclaims: [{stage: Q, row: 0, sum: 3}]",
        ":3: given.Q: Q is of shape [2], heads",
    ),
    "a head too many": (
        HEAD + "given: {Q: [[[1]], [[2]]]}\nsettings: {heads: 3}\nclaims: [{stage: Q, row: 0, head: 0, sum: 3}]",
        ":3: given.Q: Q is of shape [2, 1, 1], heads 3; queries, [T, Dk], or a matrix a head would fit",
    ),
    "bias": (swap("settings:\n", "  b_Q: [1]\nsettings:\n"), ":26: given.b_Q: b_Q must be [2] to go with W_Q, got [1]"),
    "tokens": (
        swap("love, machine, learning]\n\ngiven", "love]\n\ngiven"),
        ":11: given.X: X of shape [4, 2] has 4 queries, tok",
    ),
    "too much": (
        HEAD + f"given: {{X: [{'[1],' * 20000}], W_Q: [[1]], W_K: [[1]]}}\nclaims: [{{stage: scores, row: 0, sum: 1}}]",
        ":3: given: could lead to 400000000 numbers in a stage; at most 16777216 would fit",
    ),
    "given past a product": (
        HEAD + "given: {Q: [[1]], weights: [[1], [1]]}\nclaims: [{stage: Q, row: 0, sum: 1}]",
        ":3: given.weights: weights of shape [2, 1] has 2 queries, Q has 1; equal numbers would fit",
    ),
    "printed row": (
        swap("[0.893, 0.930, 0.818]", "[0.893, 0.930]"),
        ":53: printed[8].values: is of shape [2]; [3], the",
    ),
    "printed number": (swap("{stage: d_k, values: 2}", "{stage: d_k, values: [2]}"), ":49: printed[4].values: is of"),
    # places
    "stage": (swap("stage: scores,", "stage: score,"), ":48: printed[3].stage: score does not fit; one of Q, K, V"),
    "token": (
        swap("stage: scores, row: love", "stage: scores, row: hate"),
        ":48: printed[3].row: 'hate' is not in scores",
    ),
    "row": (
        swap("stage: scores, row: love", "stage: scores, row: 4"),
        ":48: printed[3].row: '4' is not in scores; 0 to 3",
    ),
    "row below": (swap("stage: scores, row: love", "stage: scores, row: -1"), ":48: printed[3].row: '-1' is not in"),
    "head": (
        swap("stage: scores, row", "stage: scores, head: 0, row"),
        ":48: printed[3].head: scores has no head axis",
    ),
    "head of many": (
        HEAD + "given: {Q: [[1, 2]]}\nsettings: {heads: 2}\nclaims: [{stage: Q, row: 0, sum: 1}]",
        ":5: claims[0]: Q has several heads; a head as well as a row would fit",
    ),
    "out of reach": (
        HEAD + "given: {scores: [[1]]}\nprinted: [{stage: weights, values: [[1]]}]",
        ":4: printed[0].stage: scores as given do not lead to weights; without Q, scores_divided_by must be none or a",
    ),
    "erratum elsewhere": (
        swap("    column: learning", "    column: lerning"),
        ":58: errata[0].column: 'lerning' is not in",
    ),
    "erratum of nothing": (swap("right: 0.3382", "right: 0.3383"), ":60: errata[0].right: is the same as printed"),
    "erratum that rounds": (
        swap("right: 0.3382", "right: 0.34"),
        ":60: errata[0].right: 0.34 has fewer digits than 0.3383",
    ),
    "decimals": (
        swap("{stage: d_k, values: 2}", "{stage: d_k, decimals: -1, values: 2}"),
        ":49: printed[4].decimals: -1 does not fit; to how many decimals",
    ),
    "an erratum with fewer digits than are meant": (
        HEAD + "given: {Q: [[1, 2]]}\nprinted: [{stage: Q, decimals: 3, values: [[1, 2.5]]}]\n"
        "errata: [{stage: Q, row: 0, column: 1, printed: 2.5, right: 2, why: w}]",
        ":5: errata[0].right: 2 has fewer digits than 2.500; as many or more would fit",
    ),
    "divided by its sum": (
        HEAD + "given: {scores: [[0, 1]]}\nclaims: [{stage: scores, row: 0, divided_by_sum: [0]}]",
        ":4: claims[0].divided_by_sum: is of shape [1]; [2], the shape of scores, row 0, would fit",
    ),
    "unprinted sum": (
        HEAD + "given: {scores: [[0, 1]], V: [[1], [2]]}\nsettings: {scores_divided_by: none}\n"
        "claims: [{stage: weights, row: 0, printed_sum: 1}]",
        ":5: claims[0].printed_sum: weights, row 0 is not printed as a whole row; sum would fit",
    ),
    # numbers
    **{
        f"number {number[:12]}": (with_number(number), f":13: given.X[1][1]: {came} does not fit; {fits}")
        for number, came, fits in [
            *(
                (n, n, NUMBER)
                for n in ("nan", ".nan", "inf", "-inf", ".inf", "abc", "1_000", "0x10", "~", "１.0", "1o")
            ),
            ("1e999", "1e999", "a number that float64 can hold would"),
            ("-1e999", "-1e999", "a number that float64 can hold would"),
            ("1e-999", "1e-999", "a number that float64 can hold would"),
            ("1e999999999", "1e999999999", NUMBER),
            ("{a: 1}", "a mapping", NUMBER),
            ("[]", "an empty list", NUMBER),
            ('""', "''", NUMBER),
            ('"1\\n"', r"'1\n'", NUMBER),
        ]
    },
    "a number too long": (with_number("9" * 5000), ":13: given.X[1][1]: 9999"),
    "a printed word": (
        swap("row: love, values: [1.158,", "row: love, values: [nan,"),
        ":48: printed[3].values[0]: nan does",
    ),
    "a claimed word": (
        swap("value: 0.0015", "value: small"),
        ":70: claims[4].value: small does not fit; a finite decimal",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_content_is_refused_in_one_line_that_says_where_and_what_fits(name, tmp_path):
    text, says = BAD[name]
    path = tmp_path / "bad.yml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert refusal(path).startswith(says), refusal(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (bytes(range(256)), ":2: byte 0x80 is not UTF-8; text saved as UTF-8 would fit"),
        (LOVE.encode("utf-16"), ":1: byte 0xff is not UTF-8"),
        ("title: t\nnote: café".encode("latin-1"), ":2: byte 0xe9 is not UTF-8"),
        (b"\x89PNG\r\n\x1a\n\0\0", ":1: byte 0x89 is not UTF-8"),
    ],
)
def test_bytes_that_are_not_utf8(content, says, tmp_path):
    path = tmp_path / "bad.yml"
    path.write_bytes(content)
    assert refusal(path).startswith(says)


DEEP = 10_000
HOSTILE = {
    "ten megabytes": b"# " + b"x" * 10_000_000,
    "ten megabytes of numbers": (HEAD + "given: {X: [" + "[1, 2]," * 1_400_000 + "]}").encode(),
    "flow lists": ("title: " + "[" * DEEP + "]" * DEEP).encode(),
    "flow lists unclosed": b"[" * DEEP,
    "flow mappings": b"{a: " * DEEP,
    "block lists": b"- " * DEEP + b"x",
    "block mappings": "\n".join(" " * i + "a:" for i in range(1000)).encode(),
    "keys of keys": b"? " * DEEP + b"x",
    "lists in given": (HEAD + "given: {X: " + "[" * DEEP + "1" + "]" * DEEP + "}").encode(),
    "billion laughs": b"a: &a [x]\n" + b"".join(b"b%d: &b%d [*a, *a]\n" % (i, i) for i in range(5000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_too_large_or_too_deep_is_refused_in_under_a_second(name, tmp_path):
    load_builtin("keys_sentence")  # what is imported on first use is not the file's doing
    path = tmp_path / "hostile.yml"
    path.write_bytes(HOSTILE[name])
    start = time.process_time()
    says = refusal(path)
    assert time.process_time() - start < 1
    assert len(says) < 300


def test_the_pure_python_parser_refuses_depth_as_fast(tmp_path, monkeypatch):
    """PyYAML without its C library."""
    import yaml

    load_builtin("keys_sentence")
    monkeypatch.delattr(yaml, "CBaseLoader", raising=False)
    for name in ("flow lists", "flow mappings", "block lists", "lists in given", "keys of keys"):
        path = tmp_path / "hostile.yml"
        path.write_bytes(HOSTILE[name])
        start = time.process_time()
        refusal(path)
        assert time.process_time() - start < 1, name
    copy = tmp_path / "copy.yml"
    copy.write_text(LOVE, encoding="utf-8")
    assert check_example(load_example(copy)).verdict == "right"


def test_no_more_than_the_limit_is_ever_read(tmp_path, monkeypatch):
    """A file that says it is small and never ends, as some of the kernel's are."""
    path = tmp_path / "large.yml"
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    assert refusal(path) == f": is too large; at most {MAX_BYTES} bytes would fit"
    path.write_bytes(LOVE.encode() + b"\n#" + b"x" * (MAX_BYTES - len(LOVE.encode()) - 2))
    assert path.stat().st_size == MAX_BYTES
    assert check_example(load_example(path)).verdict == "right"


def test_what_is_no_file(tmp_path):
    assert refusal(tmp_path) == ": is a directory; a YAML file would fit"
    assert refusal(tmp_path / "missing.yml") == ": cannot be read: No such file or directory; a YAML file would fit"
    (tmp_path / "loop.yml").symlink_to(tmp_path / "loop.yml")
    assert refusal(tmp_path / "loop.yml").startswith(": cannot be read: Too many levels of symbolic links")
    assert refusal(tmp_path / ("x" * 300)).startswith(": cannot be read: File name too long")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = tmp_path / "secret.yml"
    path.write_text(LOVE, encoding="utf-8")

    def refuse(*_):  # in place of a mode that root would not notice
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(os, "open", refuse)
    assert refusal(path) == ": cannot be read: Permission denied; a YAML file would fit"


@pytest.mark.parametrize("name", ["\x1b[31mred.yml", "two\nlines.yml", "\udcff.yml", "", "a\0b", "\u202etxt.yml"])
def test_a_file_name_cannot_steer_the_terminal(name):
    with pytest.raises(ExampleError) as caught:
        load_example(name)
    assert str(caught.value).isprintable()
    assert "cannot be read" in str(caught.value)

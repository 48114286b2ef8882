"""prove: what the notebooks call to hold a number of their own against the printed one."""

import pytest
import torch

from attn_lib.worked_examples import load_builtin, prove


@pytest.fixture(scope="module")
def love():
    return load_builtin("self_attention_love")


@pytest.fixture(scope="module")
def trace(love):
    return love.trace()


def test_it_prints_the_documents_digits(love, trace, capsys):
    prove(love, "Q", trace.Q)
    prove(love, "output", trace.output[1], row="love", printing=1)
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["Q as printed, 8 of 8 right", "  1.05  0.65"]
    assert said[5:] == ["output of love as printed, 3 of 3 right", "  0.893  0.930  0.818"]


def test_an_erratum_is_told_and_not_forgiven_twice(love, trace, capsys):
    prove(love, "weights", trace.weights[1], row="love")
    said = capsys.readouterr().out
    assert "weights of love as printed, 3 of 4 right" in said
    assert "erratum, weights, row love, column learning: printed 0.3383, right 0.3382" in said
    # Off by more than the erratum says is simply wrong.
    with pytest.raises(AssertionError, match="column learning: computed 0.34"):
        prove(love, "weights", trace.weights[1] + torch.tensor([0, 0, 0, 0.002]), row="love")


def test_one_wrong_number_is_named_with_its_place(love, trace, capsys):
    scores = trace.scores[1].clone()
    scores[2] += 0.0001
    with pytest.raises(
        AssertionError, match="scores, row love, column machine: computed 1.6889.., the document prints 1.6888"
    ):
        prove(love, "scores", scores, row="love")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("stage", "shape", "row", "printing", "says"),
    [
        ("weights", (4, 4), None, 0, r"computed has shape \[4, 4\], the document prints 4 numbers here"),
        ("weights", (4,), "hate", 0, "'hate' is not in weights"),
        ("weights", (4,), "love", 1, "prints this part of weights 1 times; printing 1 is not there"),
        ("weights", (4,), "I", 0, "prints this part of weights 0 times"),
        ("head_outputs", (4,), None, 0, "prints this part of head_outputs 0 times"),
    ],
)
def test_what_is_not_printed_cannot_be_proved(love, stage, shape, row, printing, says):
    with pytest.raises(ValueError, match=says):
        prove(love, stage, torch.zeros(shape), row=row, printing=printing)


def test_an_unknown_example_is_refused_with_those_that_are_there():
    with pytest.raises(ValueError, match="name must be one of .*'self_attention_love'.*got 'hate'"):
        load_builtin("hate")

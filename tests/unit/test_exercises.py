import math

import numpy as np
import pytest
import torch

from attn_lib.exercises import check_answer


def verdict(capsys, answer, expected, **settings):
    check_answer(answer, expected, **settings)
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (0.893, 0.89327),  # rounded as asked
        (0.89327, 0.89327),
        ([0.893, 0.930], torch.tensor([0.89327, 0.92953], dtype=torch.float64)),
        (torch.tensor([[True, False]]), torch.tensor([[True, False]])),
        ([[True, False]], torch.tensor([[True, False]])),
        (True, True),
        (torch.tensor(True), True),
        (np.True_, True),
        ([1.0, -math.inf], [1.0, -math.inf]),
        ([torch.ones(2), torch.ones(2)], torch.ones(2, 2)),
        ("learning", "learning"),
        ("Learning", "learning"),
        (4, 4),
    ],
)
def test_right_answers_are_right(capsys, answer, expected):
    assert verdict(capsys, answer, expected) == "Right."


@pytest.mark.parametrize("answer", [..., None, [0.1, ..., 0.3]])
def test_an_open_exercise_is_not_wrong(capsys, answer):
    assert verdict(capsys, answer, 1.0).startswith("Not answered yet")


@pytest.mark.parametrize(
    ("answer", "expected", "says"),
    [
        (0.894, 0.89327, "3 decimals"),
        ([0.893, 0.931], [0.89327, 0.92953], "1 of 2 entries are off, the first at [1]"),
        ([0.893], [0.89327, 0.92953], "shape should be [2], yours is [1]"),
        (float("nan"), 0.5, "holds NaN"),
        (torch.tensor([1.0, torch.nan]), [1.0, 0.5], "holds NaN"),
        (131072, 1048576, "the number is off."),
        (0.5 + 3j, 0.5, "complex"),
        ([1.0, math.inf], [1.0, -math.inf], "1 of 2"),
        ("one", [1.0], "yours is a str"),
        (object(), 1.0, "yours is a object"),
        (1, True, "should be a bool, yours is a int"),
        (False, True, "not it"),
        (torch.tensor([1.0, 0.0]), torch.tensor([True, False]), "True and False"),
        ([True], [1.0], "numbers"),
        ("I", "learning", "not it"),
    ],
)
def test_wrong_answers_say_what_is_off_and_keep_the_secret(capsys, answer, expected, says):
    said = verdict(capsys, answer, expected)
    assert said.startswith("Not yet:")
    assert says in said
    assert "0.89327" not in said
    assert "learning" not in said


def test_a_hint_names_the_usual_mistake(capsys):
    hints = [(1 / math.sqrt(3), "that divides by the wrong width.")]
    assert verdict(capsys, 0.577, 1 / math.sqrt(2), hints=hints) == "Not yet: that divides by the wrong width."

import pytest
import torch

from attn_lib import causal_mask, padding_mask, sliding_window_mask


def as_rows(mask):
    return ["".join("x" if allowed else "." for allowed in row) for row in mask.tolist()]


def test_square_causal_mask_is_the_lower_triangle():
    assert as_rows(causal_mask(3)) == ["x..", "xx.", "xxx"]


def test_with_more_keys_the_queries_are_the_last_positions():
    assert as_rows(causal_mask(2, 5)) == ["xxxx.", "xxxxx"]
    assert as_rows(causal_mask(1, 4)) == ["xxxx"]


def test_an_offset_places_the_queries_and_a_negative_one_leaves_empty_rows():
    assert as_rows(causal_mask(2, 4, offset=0)) == ["x...", "xx.."]
    assert as_rows(causal_mask(3, 3, offset=-2)) == ["...", "...", "x.."]
    assert as_rows(causal_mask(3, 1)) == [".", ".", "x"]


def test_a_window_counts_the_querys_own_position():
    assert as_rows(sliding_window_mask(4, window=1)) == ["x...", ".x..", "..x.", "...x"]
    assert as_rows(sliding_window_mask(4, window=2)) == ["x...", "xx..", ".xx.", "..xx"]
    assert as_rows(sliding_window_mask(2, 5, window=3)) == [".xxx.", "..xxx"]


def test_padding_joins_with_causal():
    lengths = torch.tensor([1, 3])
    assert padding_mask(lengths).shape == (2, 1, 1, 3)
    joined = causal_mask(3) & padding_mask(lengths)  # [2, 1, 3, 3]
    assert as_rows(joined[0, 0]) == ["x..", "x..", "x.."]
    assert as_rows(joined[1, 0]) == ["x..", "xx.", "xxx"]


def test_empty_sizes():
    assert causal_mask(0, 3).shape == (0, 3)
    assert causal_mask(2, 0).shape == (2, 0)
    assert padding_mask(torch.tensor([], dtype=torch.int64)).shape == (0, 1, 1, 0)


@pytest.mark.parametrize(
    ("misuse", "error", "says"),
    [
        (lambda: sliding_window_mask(3, window=0), ValueError, "window must be an integer of at least 1, got 0"),
        (lambda: sliding_window_mask(3, window=1.5), TypeError, "window must be an integer, got 1.5"),
        (lambda: sliding_window_mask(3, window=True), TypeError, "window must be an integer, got True"),
        (lambda: causal_mask(2.5), TypeError, "T must be an integer, got 2.5"),
        (lambda: causal_mask(2, -1), ValueError, "S must be an integer of at least 0, got -1"),
        (lambda: causal_mask(2, offset=0.5), TypeError, "offset must be an integer, got 0.5"),
        (lambda: padding_mask([1, 2]), TypeError, "lengths must be a tensor, got list"),
        (lambda: padding_mask(torch.tensor([1]), 3.5), TypeError, "S must be an integer, got 3.5"),
    ],
)
def test_misuse_is_refused(misuse, error, says):
    with pytest.raises(error, match=says):
        misuse()


def test_lengths_that_cannot_be_are_refused():
    with pytest.raises(TypeError, match="lengths must be integers"):
        padding_mask(torch.tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"between 0 and S = 2, got \[3\]"):
        padding_mask(torch.tensor([3]), 2)
    with pytest.raises(ValueError, match="between 0 and"):
        padding_mask(torch.tensor([-1, 2]))
    with pytest.raises(ValueError, match="one-dimensional"):
        padding_mask(torch.tensor([[1]]))

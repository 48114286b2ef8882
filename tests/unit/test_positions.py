"""Positions: numbers by hand, and the law that rotary scores depend on the distance alone."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from attn_lib import MaskedMultiHeadSelfAttention, RotaryPositions, rotate, sinusoidal_positions

F64 = torch.float64


def test_sinusoidal_positions_are_those_of_the_paper():
    vectors = sinusoidal_positions(50, 512, dtype=F64)
    for position, column in [(0, 0), (0, 1), (7, 0), (7, 1), (49, 510), (49, 511), (3, 100)]:
        angle = position / 10000 ** (2 * (column // 2) / 512)
        wave = math.sin if column % 2 == 0 else math.cos
        assert vectors[position, column].item() == pytest.approx(wave(angle), abs=1e-12)


def test_sinusoidal_positions_go_on_where_others_ended():
    assert torch.equal(sinusoidal_positions(3, 7, offset=2), sinusoidal_positions(5, 7)[2:])
    assert sinusoidal_positions(4, 7).shape == (4, 7)
    assert sinusoidal_positions(4, 6).dtype == torch.float32


def test_rotating_by_a_quarter_turn_swaps_a_pair():
    # With base 1 every pair turns by one radian a position; the position pi / 2 does not exist, so: cos and sin of 1.
    turned = rotate(torch.tensor([[[1.0, 0.0, 0.0, 1.0]]], dtype=F64), offset=1, base=1.0)
    assert_close(turned[0, 0], torch.tensor([math.cos(1), math.sin(1), -math.sin(1), math.cos(1)], dtype=F64))
    halves = rotate(torch.tensor([[[1.0, 0.0, 0.0, 1.0]]], dtype=F64), offset=1, base=1.0, halves=True)
    assert_close(halves[0, 0], torch.tensor([math.cos(1), -math.sin(1), math.sin(1), math.cos(1)], dtype=F64))


@settings(deadline=None, max_examples=40)
@given(
    t=st.integers(0, 5000),
    s=st.integers(0, 5000),
    shift=st.integers(0, 5000),
    halves=st.booleans(),
    seed=st.integers(0, 9),
)
def test_scores_depend_on_the_distance_alone(t, s, shift, halves, seed):
    make = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(1, 10, generator=make, dtype=F64) for _ in range(2))

    def score(t, s):
        return (rotate(query, offset=t, halves=halves) * rotate(key, offset=s, halves=halves)).sum()

    # An angle of 10,000 radians is known to 2e-12 in float64; two of them and their sine meet in a score.
    assert_close(score(t, s), score(t + shift, s + shift), rtol=0, atol=1e-10)
    assert_close(rotate(query, offset=t).norm(), query.norm())


def test_a_rotary_layer_turns_queries_and_keys_but_not_values():
    torch.manual_seed(0)
    plain = MaskedMultiHeadSelfAttention(12, 3).double()
    layer = MaskedMultiHeadSelfAttention(12, 3, positions=RotaryPositions()).double()
    layer.load_state_dict(plain.state_dict())
    x = torch.randn(1, 5, 12, dtype=F64)
    query, key, value = (each(x).unflatten(-1, (3, 4)).transpose(1, 2) for each in (layer.w_q, layer.w_k, layer.w_v))
    scores = (rotate(query) @ rotate(key).mT / 2).masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(), -torch.inf)
    expected = layer.w_o((scores.softmax(-1) @ value).transpose(1, 2).flatten(-2))
    assert_close(layer(x).hidden_states, expected)
    assert not torch.allclose(layer(x).hidden_states, plain(x).hidden_states)


def test_half_precision_is_turned_in_float32():
    make = torch.Generator().manual_seed(0)
    tensor = torch.randn(1, 2, 7, 8, generator=make).bfloat16()
    exact = rotate(tensor.double(), offset=100_000)
    assert_close(rotate(tensor, offset=100_000), exact.bfloat16(), rtol=torch.finfo(torch.bfloat16).eps, atol=1e-6)


@pytest.mark.parametrize(
    ("misuse", "error", "says"),
    [
        (lambda: rotate(torch.zeros(3, 5)), ValueError, r"even Dk, got \[3, 5\]"),
        (lambda: rotate(torch.zeros(4)), ValueError, r"tensor must be \[..., T, Dk\].*got \[4\]"),
        (lambda: rotate(torch.zeros(3, 4).long()), TypeError, "tensor must hold floats, got torch.int64"),
        (lambda: rotate(torch.zeros(3, 4), offset=-1), ValueError, "offset must be an integer of at least 0, got -1"),
        (lambda: rotate(torch.zeros(3, 4), base=0), ValueError, "base must be above 0, got 0"),
        (lambda: rotate(torch.zeros(3, 4), halves="no"), TypeError, "halves must be True or False"),
        (lambda: RotaryPositions(base=-1.0), ValueError, "base must be above 0, got -1.0"),
        (lambda: sinusoidal_positions(2.0, 4), TypeError, "length must be an integer, got 2.0"),
        (lambda: sinusoidal_positions(2, 0), ValueError, "d_model must be an integer of at least 1, got 0"),
    ],
)
def test_misuse_is_refused(misuse, error, says):
    with pytest.raises(error, match=says):
        misuse()

import pytest
import torch
from torch.testing import assert_close

from attn_lib import MultiHeadAttention, SelfAttention, attention, attention_weights, trace_attention, trace_from
from attn_lib.trace import STAGES

F64 = torch.float64


def matrices(*shapes, seed=0):
    make = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=make, dtype=F64) for shape in shapes]


def test_one_head_has_no_head_axis_and_every_stage_is_there():
    X, W_Q, W_K, W_V = matrices((5, 3), (3, 2), (3, 2), (3, 7))
    trace = trace_attention(X, W_Q, W_K, W_V)
    shapes = {stage: list(getattr(trace, stage).shape) for stage in STAGES}
    square = dict.fromkeys(("scores", "scaled_scores", "masked_scores", "weights"), [5, 5])
    outputs = dict.fromkeys(("V", "head_outputs", "concatenated", "output"), [5, 7])
    assert shapes == {"Q": [5, 2], "K": [5, 2], **square, **outputs}
    layer = SelfAttention(3, 2, 7).double()
    with torch.no_grad():
        for linear, W in zip((layer.w_q, layer.w_k, layer.w_v), (W_Q, W_K, W_V), strict=True):
            linear.weight.copy_(W.T)
    assert_close(trace.output, layer(X[None]).hidden_states[0])
    assert_close(trace.weights, layer(X[None]).attention_weights[0, 0])


def test_grouped_heads_context_and_masks_agree_with_the_functions():
    X, context, W_Q, W_K, W_V, W_O = matrices((5, 3), (7, 4), (3, 12), (4, 6), (4, 10), (20, 3))
    settings = {"is_causal": True, "window": 4, "scale": 0.3, "softcap": 2.0, "mask": torch.arange(7) != 2}
    trace = trace_attention(X, W_Q, W_K, W_V, context=context, W_O=W_O, num_heads=4, num_kv_heads=2, **settings)
    assert trace.Q.shape == (4, 5, 3) and trace.K.shape == (2, 7, 3) and trace.V.shape == (2, 7, 5)
    assert_close(trace.weights, attention_weights(trace.Q, trace.K, **settings))
    assert_close(trace.head_outputs, attention(trace.Q, trace.K, trace.V, **settings))
    assert_close(trace.output, trace.concatenated @ W_O)


def test_a_trace_with_biases_is_the_multi_head_layer():
    layer = MultiHeadAttention(12, 3).double()
    (X,) = matrices((5, 12))
    maps = {"Q": layer.w_q, "K": layer.w_k, "V": layer.w_v, "O": layer.w_o}
    given = (
        {"X": X} | {f"W_{role}": m.weight.T for role, m in maps.items()} | {f"b_{r}": m.bias for r, m in maps.items()}
    )
    assert_close(trace_from(given, num_heads=3).output, layer(X[None]).hidden_states[0])


def test_a_batch_of_masks_needs_no_head_axis_where_there_is_none():
    X, W_Q, W_K, W_V = matrices((2, 5, 3), (3, 2), (3, 2), (3, 7))
    mask = torch.ones(5, 5, dtype=torch.bool).tril() & (torch.arange(5) != torch.tensor([[[3]], [[4]]]))  # [B, T, S]
    trace = trace_attention(X, W_Q, W_K, W_V, mask=mask)
    assert trace.weights.shape == (2, 5, 5) and trace.output.shape == (2, 5, 7)
    for b in range(2):
        assert_close(trace.output[b], trace_attention(X[b], W_Q, W_K, W_V, mask=mask[b]).output)


def test_it_starts_from_whatever_stage_is_given():
    assert trace_from({"weights": torch.eye(2)}).output is None
    weights, V = torch.tensor([[0.25, 0.75]]), torch.tensor([[4.0], [8.0]])
    trace = trace_from({"weights": weights, "V": V})
    assert trace.output.tolist() == [[7.0]] and trace.scores is None
    heads = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])  # [H = 2, T = 1, Dv = 2]
    assert trace_from({"head_outputs": heads}, num_heads=2).concatenated.tolist() == [[1, 2, 3, 4]]
    # Nobody knows Dk from scores alone: without a scale the way ends there.
    assert trace_from({"scores": torch.zeros(1, 2), "V": V}).output is None
    assert trace_from({"scores": torch.zeros(1, 2), "V": V}, scale=1.0).output.tolist() == [[6.0]]


def test_a_given_stage_replaces_the_computed_one():
    X, W_Q, W_K, W_V = matrices((5, 3), (3, 2), (3, 2), (3, 7))
    given = {"X": X, "W_Q": W_Q, "W_K": W_K, "W_V": W_V, "weights": torch.eye(5, dtype=F64)}
    assert_close(trace_from(given).output, X @ W_V)


def test_without_softmax_the_masked_scores_weigh():
    trace = trace_from({"scores": torch.ones(2, 2), "V": torch.tensor([[1.0], [2.0]])}, scale=1.0, is_causal=True,
                       softmax=False)  # fmt: skip
    assert trace.output.tolist() == [[1.0], [3.0]]


@pytest.mark.parametrize(
    ("given", "settings", "says"),
    [
        ({"X": [[1.0]]}, {}, "X must be a tensor, got list"),
        ({"X": torch.ones(2, 3, dtype=torch.int64)}, {}, "X must be a float tensor, got torch.int64"),
        (
            {"X": torch.ones(2, 3), "W_Q": torch.ones(3, 4, dtype=F64)},
            {},
            "W_Q must have the dtype of X, torch.float32",
        ),
        ({"scores": torch.ones(2, 2)}, {"scale": 1.0, "mask": torch.ones(2, 2)}, "mask must be a bool tensor"),
        ({}, {"num_heads": 2.0}, "num_heads must be an integer, got 2.0"),
        ({}, {"is_causal": "no"}, "is_causal must be True or False"),
    ],
)
def test_what_is_of_the_wrong_kind_is_named(given, settings, says):
    with pytest.raises(TypeError, match=says):
        trace_from(given, **settings)


@pytest.mark.parametrize(
    ("given", "settings", "says"),
    [
        ({"W_X": torch.ones(1)}, {}, r"unknown names \['W_X'\]"),
        ({"X": torch.ones(2, 3), "W_Q": torch.ones(2, 3)}, {}, r"W_Q of shape \[2, 3\] does not fit X .* needs 3 rows"),
        ({"Q": torch.ones(4, 5, 3)}, {"num_heads": 2}, r"Q must have 2 heads on axis -3, got shape \[4, 5, 3\]"),
        ({"Q": torch.ones(5, 3)}, {"num_heads": 2}, r"Q must have at least 3 axes here, got shape \[5, 3\]"),
        ({"X": torch.ones(2, 3), "b_Q": torch.ones(4)}, {}, "b_Q is given without W_Q"),
        (
            {"X": torch.ones(2, 3), "W_Q": torch.ones(3, 4), "b_Q": torch.ones(5)},
            {},
            r"b_Q must be \[4\] to go with W_Q, got \[5\]",
        ),
        ({"X": torch.ones(2, 3), "W_K": torch.ones(2, 3)}, {}, "W_K of shape .* does not fit X of shape"),
        ({"scores": torch.ones(2, 2)}, {"scale": 1.0, "softcap": 0.0}, "softcap must be above 0"),
        (
            {"scores": torch.ones(2, 2)},
            {"scale": 1.0, "mask": torch.ones(3, 3).bool()},
            "mask of shape .* does not broadcast",
        ),
        ({"Q": torch.ones(2, 3), "K": torch.ones(2, 2, 3)}, {}, "batch axes"),
        ({"X": torch.ones(2, 3), "W_Q": torch.ones(3, 4)}, {"num_heads": 3}, "num_heads = 3 must divide the width 4"),
        ({}, {"num_heads": 4, "num_kv_heads": 3}, "num_kv_heads = 3 must divide num_heads = 4"),
        ({"Q": torch.ones(2, 3), "K": torch.ones(2, 4)}, {}, "must share Dk"),
        ({"weights": torch.ones(1, 2), "V": torch.ones(3, 1)}, {}, "must share S"),
        ({"head_outputs": torch.ones(1, 2), "W_O": torch.ones(3, 1)}, {}, "W_O of shape .* needs 2 rows"),
    ],
)
def test_what_does_not_fit_is_named(given, settings, says):
    with pytest.raises(ValueError, match=says):
        trace_from(given, **settings)

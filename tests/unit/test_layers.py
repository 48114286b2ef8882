import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attn_lib import (
    AttentionOutput,
    CrossAttention,
    GroupedQueryAttention,
    MaskedMultiHeadSelfAttention,
    MaskedSelfAttention,
    MultiHeadAttention,
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    MultiQueryAttention,
    RotaryPositions,
    SelfAttention,
    merge_heads,
    multi_head_self_attention,
    split_heads,
)

B, T, S, D, DC = 2, 5, 7, 12, 11


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def test_heads_own_consecutive_columns_and_merging_undoes_the_split():
    x = torch.arange(24.0).reshape(1, 2, 12)
    heads = split_heads(x, 3)  # [1, 3, 2, 4]
    assert heads[0, 1].tolist() == [[4, 5, 6, 7], [16, 17, 18, 19]]
    assert torch.equal(merge_heads(heads), x)


@pytest.mark.parametrize(
    ("layer", "heads"),
    [
        (MultiHeadSelfAttention(D, 4), 4),
        (MaskedMultiHeadSelfAttention(D, 3), 3),
        (GroupedQueryAttention(D, 6, 2), 6),
        (MultiQueryAttention(D, 4), 4),
        (MultiHeadAttention(D, 2, bias=False), 2),
        (SelfAttention(D), 1),
        (MaskedSelfAttention(D), 1),
    ],
)
def test_self_attention_keeps_the_shape_and_every_row_sums_to_one(layer, heads):
    output = layer(torch.randn(B, T, D))
    assert isinstance(output, AttentionOutput)
    assert output.hidden_states.shape == (B, T, D)
    assert output.attention_weights.shape == (B, heads, T, T)
    assert_close(output.attention_weights.sum(-1), torch.ones(B, heads, T))


def test_cross_attention_has_queries_by_keys_weights():
    x, context = torch.randn(B, T, D), torch.randn(B, S, DC)
    output = MultiHeadCrossAttention(D, 3, DC)(x, context)
    assert output.hidden_states.shape == (B, T, D)
    assert output.attention_weights.shape == (B, 3, T, S)
    single = CrossAttention(D, DC, d_k=2, d_v=3)(x, context)
    assert single.hidden_states.shape == (B, T, 3)
    assert single.attention_weights.shape == (B, 1, T, S)


def test_grouped_layers_have_smaller_key_and_value_maps():
    assert GroupedQueryAttention(D, 6, 2).w_k.weight.shape == (4, D)
    assert MultiQueryAttention(D, 6).w_v.weight.shape == (2, D)


@pytest.mark.parametrize("layer", [MaskedSelfAttention(D), MaskedMultiHeadSelfAttention(D, 3)])
def test_a_later_token_changes_no_earlier_output(layer):
    x = torch.randn(B, T, D)
    changed = x.clone()
    changed[:, 3:] += 100
    assert torch.equal(layer(x).hidden_states[:, :3], layer(changed).hidden_states[:, :3])
    assert layer(x).attention_weights.triu(1).eq(0).all()


@pytest.mark.parametrize("junk", [0.0, 1e30, torch.nan, torch.inf])
def test_what_stands_in_the_padding_reaches_no_real_token(junk):
    layer = MultiHeadSelfAttention(D, 3)
    x = torch.randn(B, T, D)
    attention_mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    padded = x.masked_fill(attention_mask[..., None] == 0, junk).requires_grad_()
    output = layer(padded, attention_mask)
    alone = layer(x[:1, :3])
    assert_close(output.hidden_states[0, :3], alone.hidden_states[0])
    assert output.attention_weights[0, :, :, 3:].eq(0).all()
    output.hidden_states[0, :3].sum().backward()
    assert padded.grad[0, 3:].eq(0).all()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize("layer", [MultiHeadCrossAttention(D, 3, DC), CrossAttention(D, DC)])
def test_a_wholly_padded_context_gives_zero_and_takes_no_part_in_any_gradient(layer):
    x, context = torch.randn(2, T, D), torch.randn(2, S, DC)
    context[0] = torch.nan
    output = layer(x, context, torch.tensor([[False] * S, [True] * S]))
    assert output.hidden_states[0].eq(0).all() and output.attention_weights[0].eq(0).all()
    output.hidden_states.sum().backward()
    together = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    layer(x[1:], context[1:]).hidden_states.sum().backward()
    for gradient, parameter in zip(together, layer.parameters(), strict=True):
        assert_close(gradient, parameter.grad)


@pytest.mark.parametrize("window", [None, 2])
def test_what_is_padded_on_the_left_sees_nothing_and_gives_zero(window):
    layer = MaskedMultiHeadSelfAttention(D, 3, window=window)
    x = torch.randn(1, T, D)
    output = layer(x, torch.tensor([[0, 0, 1, 1, 1]]))
    assert output.hidden_states[0, :2].eq(0).all()
    assert_close(output.hidden_states[:, 2:], layer(x[:, 2:]).hidden_states)


def test_weights_are_computed_when_first_read_and_then_kept():
    calls = []
    output = AttentionOutput(torch.zeros(1), lambda heads, rows: calls.append((heads, rows)) or torch.ones(1))
    assert calls == []
    assert output.attention_weights is output.attention_weights
    assert calls == [(None, None)]
    output.weights_of(heads=1, rows=slice(3))
    assert calls[1:] == [(1, slice(3))]


def test_weights_can_be_had_for_some_heads_and_rows():
    layer = GroupedQueryAttention(D, 6, 3, is_causal=True)
    output = layer(torch.randn(B, T, D), torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]))
    assert_close(output.weights_of(heads=[5, 1], rows=-1), output.attention_weights[:, [5, 1], -1:])


def test_a_first_look_under_no_grad_does_not_take_the_weights_out_of_a_loss():
    layer, x = MultiHeadSelfAttention(D, 3), torch.randn(B, T, D)
    output = layer(x)
    with torch.no_grad():
        assert output.attention_weights.max() <= 1
    assert output.attention_weights.requires_grad
    with torch.no_grad():
        assert not layer(x).attention_weights.requires_grad


def test_a_mask_that_changes_afterwards_changes_no_weights():
    attention_mask = torch.tensor([[True, True, False, False, False]] * B)
    output = MultiHeadSelfAttention(D, 3)(torch.randn(B, T, D), attention_mask)
    attention_mask.fill_(True)
    assert output.attention_weights[..., 2:].eq(0).all()


def test_a_context_that_is_the_sequence_itself_is_padded_like_it():
    layer, x = MultiHeadAttention(D, 3), torch.randn(1, T, D)
    x[0, 3:] = torch.nan
    output = layer(x, x, torch.tensor([[1, 1, 1, 0, 0]]))
    output.hidden_states[0, :3].sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


def test_weights_can_be_read_in_compiled_code():
    layer, x = MultiHeadSelfAttention(D, 3), torch.randn(B, T, D)
    compiled = torch.compile(lambda x: layer(x).attention_weights, fullgraph=True, backend="eager")
    assert_close(compiled(x), layer(x).attention_weights)


@pytest.mark.parametrize("layer", [MaskedMultiHeadSelfAttention(D, 3), GroupedQueryAttention(D, 6, 3)])
def test_layers_compile_whole_for_any_batch_and_length(layer):
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        for batch, length in [(2, 5), (3, 7), (4, 6), (2, 11)]:
            x, real = torch.randn(batch, length, D), torch.ones(batch, length, dtype=torch.bool)
            real[0, 2:] = False
            ours, plain = compiled(x, real), layer(x, real)
            assert_close(ours.hidden_states, plain.hidden_states)
            assert_close(ours.attention_weights, plain.attention_weights)


def test_a_state_dict_carries_a_layer_over():
    layer, other = MultiHeadCrossAttention(D, 3, DC), MultiHeadCrossAttention(D, 3, DC)
    assert set(layer.state_dict()) == {
        f"{map}.{part}" for map in ("w_q", "w_k", "w_v", "w_o") for part in ("weight", "bias")
    }
    other.load_state_dict(layer.state_dict())
    x, context = torch.randn(B, T, D), torch.randn(B, S, DC)
    assert torch.equal(other(x, context).hidden_states, layer(x, context).hidden_states)


def test_dropout_acts_in_training_only():
    layer = MultiHeadSelfAttention(D, 3, dropout=0.5)
    x = torch.randn(B, T, D)
    assert not torch.equal(layer(x).hidden_states, layer(x).hidden_states)
    layer.eval()
    assert torch.equal(layer(x).hidden_states, layer(x).hidden_states)


@pytest.mark.parametrize(
    "kwargs", [{}, {"bias": False}, {"kdim": DC, "vdim": DC}, {"dtype": torch.float64}, {"kdim": 7, "vdim": DC}]
)
def test_from_torch_gives_what_the_module_gives(kwargs):
    module = nn.MultiheadAttention(D, 3, batch_first=True, **kwargs).eval()
    for parameter in module.parameters():  # PyTorch starts its biases at 0, which would hide a lost one
        nn.init.normal_(parameter)
    dtype = kwargs.get("dtype", torch.float32)
    x = torch.randn(B, T, D, dtype=dtype)
    keys, values = (torch.randn(B, S, kwargs.get(width, D), dtype=dtype) for width in ("kdim", "vdim"))
    padding = torch.tensor([[True] * 4 + [False] * 3, [True] * 7])
    theirs, weights = module(x, keys, values, key_padding_mask=~padding, average_attn_weights=False)
    layer = MultiHeadAttention.from_torch(module)
    ours = layer(x, (keys, values), padding)
    assert_close(ours.hidden_states, theirs)
    assert_close(ours.attention_weights, weights)
    assert not layer.training
    assert ours.hidden_states.dtype == dtype


@pytest.mark.parametrize("cls", [MultiHeadSelfAttention, MaskedMultiHeadSelfAttention, MultiHeadCrossAttention])
def test_from_torch_gives_a_layer_of_the_class_that_was_asked(cls):
    module = nn.MultiheadAttention(D, 3, batch_first=True)
    module.out_proj.weight.requires_grad_(False)
    layer = cls.from_torch(module)
    assert type(layer) is cls
    assert layer.is_causal == (cls is MaskedMultiHeadSelfAttention)
    assert not layer.w_o.weight.requires_grad and layer.w_q.weight.requires_grad


def test_the_documents_function_is_the_layer():
    layer = MultiHeadSelfAttention(512, 8)
    x = torch.randn(1, 8, 512)
    output = multi_head_self_attention(x, layer)
    assert output.hidden_states.shape == (1, 8, 512)
    assert output.attention_weights.shape == (1, 8, 8, 8)
    assert torch.equal(output.hidden_states, layer(x).hidden_states)


X, C = torch.zeros(B, T, D), torch.zeros(B, S, DC)


@pytest.mark.parametrize(
    ("misuse", "error", "says"),
    [
        (lambda: MultiHeadAttention(10, 3), ValueError, "d_model = 10, num_heads = 3"),
        (lambda: MultiHeadAttention(12, 0), ValueError, "num_heads"),
        (lambda: GroupedQueryAttention(12, 6, 4), ValueError, "num_kv_heads = 4 must divide num_heads = 6"),
        (lambda: SelfAttention(4, d_k=0), ValueError, "d_k must be an integer of at least 1, got 0"),
        (lambda: MultiHeadAttention(12, 3, dropout=1.0), ValueError, "dropout must lie"),
        (lambda: MultiHeadSelfAttention(D, 3)(X[0]), ValueError, r"hidden_states must be \[B, T, 12\], got \[5, 12\]"),
        (lambda: MultiHeadCrossAttention(D, 3, DC)(X), ValueError, r"context is missing.*\[B, S, 11\]"),
        (lambda: MultiHeadAttention(D, 3, d_context=DC)(X), ValueError, "context is missing.*d_context = 11"),
        (lambda: CrossAttention(D, DC)(X, X), ValueError, r"context must be \[B, S, 11\], got \[2, 5, 12\]"),
        (lambda: CrossAttention(D, DC)(X, C[:1]), ValueError, r"batch size of hidden_states, 2.*got \[1, 7, 11\]"),
        (lambda: SelfAttention(D)(X, torch.ones(B, T)), TypeError, r"attention_mask must be bool or integers \[B, S\]"),
        (lambda: SelfAttention(D)(X, torch.ones(B, S).bool()), ValueError, r"\[B, S\] = \[2, 5\].*got \[2, 7\]"),
        (lambda: SelfAttention(D)(X.tolist()), TypeError, "hidden_states must be a tensor, got list"),
        (
            lambda: SelfAttention(D)(X.double()),
            TypeError,
            "hidden_states must have the layer's dtype torch.float32, got torch.float64",
        ),
        (
            lambda: SelfAttention(D)(X.to("meta")),
            ValueError,
            "hidden_states must be on the layer's device cpu, got meta",
        ),
        (lambda: SelfAttention(D)(X, [[1]]), TypeError, "attention_mask must be a tensor, got list"),
        (
            lambda: SelfAttention(D)(X, torch.full((B, T), -10000)),
            ValueError,
            r"attention_mask must hold 1 \(real\) and 0",
        ),
        (lambda: MultiHeadAttention(12, "3"), TypeError, "num_heads must be an integer, got '3'"),
        (lambda: MultiHeadAttention(12, 3, window=0), ValueError, "window must be an integer of at least 1"),
        (lambda: MultiHeadAttention(12, 3, is_causal="no"), TypeError, "is_causal must be True or False"),
        (lambda: MultiHeadAttention(12, 3, dropout="a"), TypeError, "dropout must be a number"),
        (
            lambda: multi_head_self_attention(X, nn.Linear(2, 2)),
            TypeError,
            "layer must be a MultiHeadAttention, got Linear",
        ),
        (lambda: MultiQueryAttention.from_torch(nn.MultiheadAttention(4, 2)), ValueError, "MultiQueryAttention shares"),
        (lambda: split_heads(X, 5), ValueError, "num_heads = 5 must divide the width 12"),
        (lambda: merge_heads(X[0]), ValueError, r"heads must be \[..., H, T, Dv\], got \[5, 12\]"),
        (lambda: MultiHeadAttention.from_torch(nn.Linear(2, 2)), TypeError, "got Linear"),
        (
            lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(4, 2, add_zero_attn=True)),
            ValueError,
            "add_zero_attn",
        ),
        (
            lambda: MultiHeadAttention(D, 3, d_context=(3, 5))(X, (C, C)),
            ValueError,
            r"context must be \[B, S, 3\], got \[2, 7, 11\]",
        ),
        (
            lambda: MultiHeadAttention(D, 3, d_context=(DC, DC))(X, (C, C[:, 1:])),
            ValueError,
            r"one length.*\[2, 7, 11\] and \[2, 6, 11\]",
        ),
        (lambda: MultiHeadAttention(D, 3)(X, (X, X, X)), ValueError, "a pair of tensors, got a tuple of 3"),
        (lambda: MultiHeadAttention(D, 3, positions="rotary"), TypeError, "positions must be RotaryPositions.*got str"),
        (lambda: MultiHeadAttention(12, 4, positions=RotaryPositions()), ValueError, "must be even, got 3"),
        (lambda: MultiHeadCrossAttention(12, 3, positions=RotaryPositions()), ValueError, "positions belong to one"),
        (lambda: MultiHeadAttention(D, 3, d_context=(1, 2, 3)), ValueError, r"d_context must be .*got \(1, 2, 3\)"),
        (lambda: MultiHeadAttention(D, 3, needs_context="no"), TypeError, "needs_context must be True or False"),
        (
            lambda: MultiHeadAttention(12, 3, positions=RotaryPositions())(X, X),
            ValueError,
            "context cannot be given to a layer with positions",
        ),
    ],
)
def test_misuse_is_refused(misuse, error, says):
    with pytest.raises(error, match=says):
        misuse()

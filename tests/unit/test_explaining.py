"""What weights are held against: each measure by its definition, and the small language of facts and questions."""

import re
from collections import Counter

import pytest
import torch
from torch import nn

from attn_lib import MultiHeadAttention
from attn_lib.learned import Reader, apply_weights
from attn_lib.learned.explaining import (
    attention_inputs,
    effect_of_hiding,
    lead,
    patched,
    permuted_weights,
    rank_correlation,
    rollout,
    token_gradients,
    twin_weights,
    uniform_weights,
    value_norms,
)
from attn_lib.learned.retrieval import (
    DRINKS,
    FILLER,
    NAMES,
    PLACES,
    QUESTION,
    draw_inquiries,
    inquiries_as_tensors,
    retrieval_vocabulary,
    teach_retrieval,
)


@pytest.fixture(autouse=True)
def doubles():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def reader():
    return Reader(9, 3, ask=8, d_model=16, num_heads=4, num_layers=2, seed=3)


TWO = Reader(9, 3, ask=8, d_model=16, num_heads=4, num_layers=2, seed=3)
IDS = torch.tensor([[1, 2, 8, 3, 5], [4, 8, 5, 0, 0]])


def test_uniform_weights_leave_padding_out(reader):
    weights = uniform_weights(IDS, 4)
    assert weights.shape == (2, 4, 5, 5)
    torch.testing.assert_close(weights[1, 2, 3], torch.tensor([1, 1, 1, 0, 0]) / 3)
    torch.testing.assert_close(reader(IDS[1:], 2 * [weights[1:]]), reader(IDS[1:, :3], 2 * [weights[1:, :, :3, :3]]))


def test_permuted_weights_are_the_same_numbers_among_real_tokens(reader):
    weights = reader.attention_weights(IDS)[0]
    dealt = permuted_weights(weights, IDS, seed=1)
    torch.testing.assert_close(dealt.sort(-1).values, weights.sort(-1).values)
    assert (dealt[1, :, :, 3:] == 0).all()
    assert not torch.equal(dealt, weights)
    assert torch.equal(dealt, permuted_weights(weights, IDS, seed=1))
    assert not torch.equal(dealt, permuted_weights(weights, IDS, seed=2))


def test_every_deal_of_a_permutation_is_as_likely():
    """Each key's weight comes from each place equally often, in rows that are dealt apart."""
    row = torch.tensor([0.6, 0.3, 0.1]).expand(1, 1, 3000, 3)
    dealt = permuted_weights(row, torch.tensor([[1, 2, 3]]), seed=0)
    shares = (dealt[0, 0] == 0.6).double().mean(0)
    torch.testing.assert_close(shares, torch.full((3,), 1 / 3), atol=0.04, rtol=0)


def test_a_twin_has_the_same_output_and_less_on_the_key():
    for _ in range(20):
        weights, value = torch.randn(12).softmax(-1), torch.randn(12, 4)
        key = int(weights.argmax())
        twin = twin_weights(weights, value, away_from=key)
        torch.testing.assert_close(twin @ value, weights @ value)
        torch.testing.assert_close(twin.sum(), torch.tensor(1.0))
        assert (twin >= 0).all()
        assert twin[key] < weights[key] - 0.01
        # As far as it goes: another weight has reached 0, or the key itself has.
        assert (twin == 0).any()


def test_where_values_leave_no_room_the_twin_is_the_row_itself():
    weights, value = torch.randn(4).softmax(-1), torch.randn(4, 3)  # S = Dv + 1: the output says all
    torch.testing.assert_close(twin_weights(weights, value, away_from=0), weights)


def test_weight_times_value_norm_is_the_length_of_what_a_key_brings():
    layer = MultiHeadAttention(8, 4, num_kv_heads=2)
    context = torch.randn(2, 3, 8)
    norms = value_norms(layer, context)  # [B, H, S]
    nothing = apply_weights(layer, context, torch.zeros(2, 4, 1, 3))  # the bias alone
    for head in range(4):
        for key in range(3):
            one = torch.zeros(2, 4, 1, 3)
            one[:, head, 0, key] = 0.7
            brought = apply_weights(layer, context, one) - nothing
            torch.testing.assert_close(brought.norm(dim=-1)[:, 0], 0.7 * norms[:, head, key])


def test_rollout_is_exact_where_nothing_but_mixing_happens():
    """Layers that keep half of each token and take the other half from the mean of their heads, without values of their own."""
    weights = torch.randn(3, 2, 4, 5, 5).softmax(-1)  # [layer, B, H, T, T]
    x = hidden = torch.randn(2, 5, 6)
    for layer in weights:
        hidden = 0.5 * hidden + 0.5 * (layer @ hidden[:, None]).mean(1)
    torch.testing.assert_close(rollout(list(weights)) @ x, hidden)
    torch.testing.assert_close(rollout(list(weights)).sum(-1), torch.ones(2, 5))


def test_the_lead_is_over_the_best_other_answer():
    scores = torch.tensor([[1.0, 4.0, 2.5], [0.0, -1.0, 3.0]])
    torch.testing.assert_close(lead(scores, torch.tensor([1, 0])), torch.tensor([1.5, -3.0]))


def test_the_inputs_of_attention_give_its_weights(reader):
    inputs, weights = attention_inputs(reader, IDS), reader.attention_weights(IDS)
    for x, block, expected in zip(inputs, reader.blocks, weights, strict=True):
        torch.testing.assert_close(block.attention(x, attention_mask=IDS != 0).attention_weights, expected)
    assert not reader.blocks[0].attention_norm._forward_hooks


def test_a_patch_moves_what_is_taken_and_nothing_else(reader):
    ids, donor = torch.tensor([[1, 2, 8, 3, 0]]), torch.tensor([[4, 2, 8, 3, 0]])
    nowhere, everywhere = torch.zeros(1, 5).bool(), torch.ones(1, 5).bool()
    torch.testing.assert_close(patched(reader, ids, donor, nowhere), reader(ids))
    torch.testing.assert_close(patched(reader, ids, donor, everywhere), reader(donor))
    changed = torch.tensor([[1, 0, 0, 0, 0]]).bool()
    part = patched(reader, ids, donor, changed)
    assert not torch.allclose(part, reader(ids)) and not torch.allclose(part, reader(donor))
    assert not reader.blocks[0]._forward_hooks
    # In a reader of one block nobody reads the other places afterwards: only the question's place counts.
    shallow = Reader(9, 3, ask=8, d_model=16, num_heads=4, num_layers=1, seed=3)
    torch.testing.assert_close(patched(shallow, ids, donor, ids != 8), shallow(ids))
    torch.testing.assert_close(patched(shallow, ids, donor, ids == 8), shallow(donor))


def test_hiding_a_token_is_padding_it(reader):
    effects = effect_of_hiding(reader, IDS)
    scores = reader(IDS)
    answers = scores.argmax(-1)
    hidden = IDS.clone()
    hidden[0, 3] = 0
    expected = lead(scores, answers) - lead(reader(hidden), answers)
    torch.testing.assert_close(effects[0, 3], expected[0])
    assert effects[0, 3] != 0
    assert effects[0, 2] == 0 and (effects[1, 3:] == 0).all() and effects[1, 1] == 0


def test_gradients_are_those_of_the_lead(reader):
    vectors, gradients = token_gradients(reader, IDS)
    answers = reader(IDS).argmax(-1)
    with torch.no_grad():
        before = lead(reader(IDS), answers)
        reader.tokens.weight[5, 2] += 1e-6  # token 5 stands once in each sentence
        after = lead(reader(IDS), answers)
    slope = (after - before) / 1e-6
    torch.testing.assert_close(gradients[IDS == 5][:, 2], slope, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(vectors[0, 0], reader.tokens.weight[1].detach())
    assert all(parameter.grad is None for parameter in reader.parameters())


def test_the_hook_is_gone_after_an_error(reader):
    with pytest.raises(ValueError, match="the question"):
        token_gradients(reader, torch.tensor([[1, 2]]))
    assert not reader.tokens._forward_hooks


def test_rank_correlation_by_hand():
    everywhere = torch.ones(1, 4, dtype=torch.bool)
    # Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 * (1 + 1 + 1 + 1) / (4 * 15).
    found = rank_correlation(torch.tensor([[1.0, 2, 3, 4]]), torch.tensor([[0.2, 0.1, 9, 0.3]]), everywhere)
    torch.testing.assert_close(found, torch.tensor([1 - 24 / 60]))
    # Ties share a rank: 1 2.5 2.5 4 against 1 2 3 4, as Pearson's correlation of the ranks.
    ranks = torch.stack([torch.tensor([1, 2.5, 2.5, 4]), torch.tensor([1.0, 2, 3, 4])])
    found = rank_correlation(torch.tensor([[0.0, 5, 5, 7]]), torch.tensor([[1.0, 2, 3, 4]]), everywhere)
    torch.testing.assert_close(found[0], torch.corrcoef(ranks)[0, 1])


def test_rank_correlation_leaves_out_what_does_not_count():
    first, second = torch.randn(2, 1, 8)
    where = torch.tensor([[1, 1, 0, 1, 1, 0, 1, 1]]).bool()
    short = rank_correlation(first[:, where[0]], second[:, where[0]], torch.ones(1, 6).bool())
    torch.testing.assert_close(rank_correlation(first, second, where), short)
    torch.testing.assert_close(rank_correlation(first, -first, where), torch.tensor([-1.0]))
    torch.testing.assert_close(rank_correlation(first, first.exp(), where), torch.tensor([1.0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: permuted_weights(torch.ones(1, 1, 2, 3), IDS, seed=0), "weights must be [B, H, T, S] for ids [B, S]"),
        (lambda: twin_weights(torch.ones(3), torch.ones(2, 2), away_from=0), "got [3], [2, 2] and 0"),
        (lambda: twin_weights(torch.ones(3), torch.ones(3, 2), away_from=3), "away_from below S"),
        (lambda: twin_weights(torch.tensor([1.5, -0.5]), torch.ones(2, 2), away_from=0), "got -0.5"),
        (lambda: rollout([]), "one layer or more, got none"),
        (lambda: rollout([torch.ones(1, 2, 3)]), "[..., H, T, T], got shape [1, 2, 3]"),
        (lambda: lead(torch.ones(2, 1), torch.zeros(2).long()), "2 answers or more, got [2, 1]"),
        (
            lambda: rank_correlation(torch.ones(1, 2), torch.ones(1, 3), torch.ones(1, 2).bool()),
            "[1, 2], [1, 3] and [1, 2]",
        ),
        (lambda: rank_correlation(torch.ones(1, 2), torch.ones(1, 2), torch.eye(2)[:1].bool()), "or more, got 1"),
        (lambda: patched(TWO, IDS, IDS[:1], IDS == 8), "got [2, 5], [1, 5] and [2, 5]"),
        (lambda: patched(TWO, IDS, IDS.flip(1), IDS == 8), "padding where ids has it"),
        (lambda: draw_inquiries(1, seed=0, shares=[1, 2]), "shares must be 12 numbers"),
        (lambda: draw_inquiries(1, seed=0, shares=12 * [0]), "one above it, got [0, 0"),
        (lambda: draw_inquiries(0, seed=0), "count must be"),
        (lambda: teach_retrieval(seed=0, steps=0), "steps must be"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_where_must_be_boolean():
    with pytest.raises(TypeError, match="where must be boolean"):
        rank_correlation(torch.ones(1, 2), torch.ones(1, 2), torch.ones(1, 2))


def test_texts_are_as_the_rules_say():
    inquiries = draw_inquiries(2000, seed=3)
    for inquiry in inquiries:
        *context, asked, last = inquiry.tokens
        assert len(context) == PLACES and last == QUESTION
        facts = [token.split("=") for token in context if token != FILLER]
        assert sorted(name for name, _ in facts) == sorted(NAMES)
        assert context[inquiry.place] == f"{asked}={DRINKS[inquiry.answer]}"
    for counted, expected in (
        (Counter(inquiry.place for inquiry in inquiries), 2000 / PLACES),
        (Counter(inquiry.tokens[-2] for inquiry in inquiries), 2000 / len(NAMES)),
        (Counter(inquiry.answer for inquiry in inquiries), 2000 / len(DRINKS)),
    ):
        assert all(0.75 * expected < count < 1.25 * expected for count in counted.values()), counted


def test_shares_say_where_the_asked_fact_stands():
    shares = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    inquiries = draw_inquiries(2000, seed=3, shares=shares)
    counted = Counter(inquiry.place for inquiry in inquiries)
    assert set(counted) == {0, 11} and 1400 < counted[0] < 1600
    # Those that are not asked for stand anywhere: where a fact stands does not give the answer away.
    filled = Counter(place for inquiry in inquiries for place in range(PLACES) if inquiry.tokens[place] != FILLER)
    assert min(filled.values()) > 2000 * 3 / 12 * 0.7
    assert draw_inquiries(20, seed=3) == draw_inquiries(50, seed=3)[:20] != draw_inquiries(20, seed=4)


def test_tensors_are_the_texts():
    inquiries = draw_inquiries(5, seed=1)
    ids, answers, places = inquiries_as_tensors(inquiries)
    vocabulary = retrieval_vocabulary()
    assert [tuple(vocabulary.decode(row)) for row in ids] == [inquiry.tokens for inquiry in inquiries]
    assert answers.tolist() == [inquiry.answer for inquiry in inquiries]
    assert places.tolist() == [inquiry.place for inquiry in inquiries]


def test_a_reader_learns_to_look_facts_up():
    torch.set_default_dtype(torch.float32)
    taught = teach_retrieval(seed=0, steps=200)
    ids, answers, _ = inquiries_as_tensors(draw_inquiries(400, seed=9000))
    assert isinstance(taught, nn.Module) and not taught.training
    assert (taught(ids).argmax(-1) == answers).double().mean() > 0.9

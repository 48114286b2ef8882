"""The small languages and models: sentences are what the rules allow, the block is PyTorch's, and what is taken out comes back."""

import itertools
import re

import pytest
import torch
from torch import nn

from attn_lib import MultiHeadAttention
from attn_lib.learned import (
    BLANK,
    Block,
    Reader,
    Vocabulary,
    agreement_vocabulary,
    apply_weights,
    as_tensors,
    batches_by_length,
    draw_sentences,
    teach_agreement,
    train,
    without_heads,
)
from attn_lib.learned.agreement import NOUNS, PLACES, QUALITIES, STATES, VERBS

NUMBER = {word: number for pair in NOUNS for number, word in enumerate(pair)}
INNER_VERBS = {word: number for pair in VERBS for number, word in enumerate(pair)}


def subject_by_parsing(tokens: tuple[str, ...]) -> int:
    """The subject's place, found by a reader of the rules that shares nothing with the draw: a stack of open phrases."""
    start = tokens.index(",") + 1 if "," in tokens else 0
    assert tokens[start] == "the"
    open_phrases: list[tuple[int, str]] = []  # the noun's place, and what led to it
    led_by = "sentence"
    for place, token in enumerate(tokens[start:], start):
        if token in NUMBER:
            open_phrases.append((place, led_by))
        elif token in PLACES or token == "that":
            led_by = token
        elif token in INNER_VERBS:
            while open_phrases[-1][1] != "that":  # phrases that were opened inside the verb's own subject
                open_phrases.pop()
            inner, _ = open_phrases.pop()
            assert NUMBER[tokens[inner]] == INNER_VERBS[token], tokens
        elif token == BLANK:
            return open_phrases[0][0]
    raise AssertionError(f"no blank in {tokens}")


@pytest.fixture(scope="module")
def sentences():
    return draw_sentences(3000, seed=11)


def test_sentences_are_as_the_rules_say(sentences):
    for sentence in sentences:
        assert sentence.tokens[-1] == "." and sentence.tokens[-2] in STATES
        assert sentence.tokens[-3] == BLANK and sentence.tokens.count(BLANK) == 1
        assert subject_by_parsing(sentence.tokens) == sentence.subject
        assert NUMBER[sentence.tokens[sentence.subject]] == sentence.number
        found = tuple((place, NUMBER[token]) for place, token in enumerate(sentence.tokens) if token in NUMBER)
        assert sentence.nouns == found
        assert sentence.attractors == sum(number != sentence.number for _, number in found)
        assert sentence.last_noun == found[-1][1]
        for before, token in zip(sentence.tokens, sentence.tokens[1:]):
            if token in QUALITIES:
                assert before == "the"


def test_the_language_asks_for_more_than_the_nearest_or_the_first_noun(sentences):
    hard = [sentence for sentence in sentences if sentence.attractors]
    assert len(hard) > len(sentences) / 3
    assert sum(sentence.last_noun == sentence.number for sentence in hard) < len(hard) / 2
    assert sum(sentence.nouns[0][1] == sentence.number for sentence in hard) < 0.8 * len(hard)
    assert max(sentence.attractors for sentence in sentences) >= 4
    assert 0.45 < sum(sentence.number for sentence in sentences) / len(sentences) < 0.55


def test_the_same_seed_gives_the_same_sentences():
    assert draw_sentences(50, seed=1) == draw_sentences(50, seed=1) != draw_sentences(50, seed=2)
    assert draw_sentences(20, seed=1) == draw_sentences(50, seed=1)[:20]


def test_what_is_held_out_is_passed_over_and_nothing_else(sentences):
    held_out = sentences[100:200]
    unseen = {sentence.tokens for sentence in held_out}
    drawn = draw_sentences(2500, seed=11, held_out=held_out)
    assert len(drawn) == 2500
    assert drawn == [sentence for sentence in sentences if sentence.tokens not in unseen][:2500]


def test_batches_hold_each_sentence_once_and_little_that_pads(sentences):
    batches = batches_by_length(sentences, 64, seed=0)
    assert [len(batch) for batch in batches if len(batch) != 64] == [3000 % 64]
    assert sorted(map(repr, itertools.chain(*batches))) == sorted(map(repr, sentences))
    padded = sum(len(batch) * max(map(len, batch)) for batch in batches)
    assert padded < 1.3 * sum(map(len, sentences))
    as_drawn = [sentences[start : start + 64] for start in range(0, 3000, 64)]
    assert padded < 0.7 * sum(len(batch) * max(map(len, batch)) for batch in as_drawn)
    # Sorted from end to end, a model would meet the long sentences last.
    lengths = [len(batch[0]) for batch in batches]
    assert lengths[:8] != sorted(lengths[:8]) and max(lengths[:8]) > min(lengths[-8:])
    assert batches == batches_by_length(sentences, 64, seed=0) != batches_by_length(sentences, 64, seed=1)


def test_a_vocabulary_numbers_every_token_and_pads(sentences):
    vocabulary = agreement_vocabulary()
    ids = vocabulary.encode([sentence.tokens for sentence in sentences])
    assert [tuple(vocabulary.decode(row)) for row in ids] == [sentence.tokens for sentence in sentences]
    assert ids.shape[1] == max(len(sentence.tokens) for sentence in sentences)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Vocabulary(["a", ""]), "tokens must be words"),
        (lambda: Vocabulary(["<pad>"]), "tokens must be words"),
        (lambda: Vocabulary(["a"]).encode([]), "sentences must be one or more"),
        (lambda: Vocabulary(["a"]).encode([["b"]]), "token must be one of the 2 of this vocabulary, got 'b'"),
        (lambda: draw_sentences(0, seed=1), "count must be"),
        (lambda: batches_by_length([], 2, seed=0), "sequences must be one or more"),
        (lambda: batches_by_length(["a"], 0, seed=0), "batch_size must be"),
        (lambda: teach_agreement(seed=0, steps=0), "steps must be"),
        (lambda: teach_agreement(seed=0, batch_size=0), "batch_size must be"),
        (lambda: Reader(5, 2, ask=4)(torch.tensor([[1, 2]])), r"the question, token 4, once a sentence, got [0]"),
        (lambda: Reader(5, 2, ask=4)(torch.tensor([[4, 4]])), r"once a sentence, got [2]"),
        (lambda: Reader(5, 2, ask=4, max_length=1)(torch.tensor([[4, 1]])), r"ids must be [B, T], T at most 1"),
        (lambda: train(nn.Linear(1, 2), []), "batches must be one or more"),
        (lambda: without_heads(MultiHeadAttention(4, 2), [2]).__enter__(), "heads must be from 0 to 1, got [2]"),
        (
            lambda: apply_weights(MultiHeadAttention(4, 2), torch.ones(1, 3, 4), torch.ones(1, 2, 3, 5)),
            "weights must be [B, H, T, S] = [1, 2, T, 3], got shape [1, 2, 3, 5]",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def copied(block: Block) -> nn.TransformerEncoderLayer:
    """PyTorch's layer with the block's parameters."""
    D = block.attention_norm.normalized_shape[0]
    layer = nn.TransformerEncoderLayer(
        D, block.attention.num_heads, 2 * D, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    maps = [block.attention.w_q, block.attention.w_k, block.attention.w_v]
    layer.self_attn.in_proj_weight.data = torch.cat([each.weight for each in maps])
    layer.self_attn.in_proj_bias.data = torch.cat([each.bias for each in maps])
    for theirs, ours in (
        (layer.self_attn.out_proj, block.attention.w_o),
        (layer.norm1, block.attention_norm),
        (layer.norm2, block.network_norm),
        (layer.linear1, block.network[0]),
        (layer.linear2, block.network[2]),
    ):
        theirs.load_state_dict(ours.state_dict())
    return layer


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_block_is_pytorchs_encoder_layer(is_causal):
    torch.manual_seed(0)
    block = Block(12, 3, is_causal=is_causal).double()
    for norm in (block.attention_norm, block.network_norm):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    x, real = torch.randn(2, 5, 12, dtype=torch.float64), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    order = torch.ones(5, 5, dtype=torch.bool).triu(1) if is_causal else None  # True is hidden there
    theirs = copied(block).double()(x, src_mask=order, src_key_padding_mask=real == 0)
    torch.testing.assert_close(block(x, real)[real == 1], theirs[real == 1])


def test_weights_of_its_own_change_nothing_and_others_do():
    torch.manual_seed(0)
    reader = Reader(9, 3, ask=8, d_model=16, num_heads=4, num_layers=2, seed=3).double()
    ids = torch.tensor([[1, 2, 8, 3], [4, 8, 5, 0]])
    weights = reader.attention_weights(ids)
    assert [tuple(each.shape) for each in weights] == [(2, 4, 4, 4)] * 2
    torch.testing.assert_close(reader(ids, weights), reader(ids))
    assert not torch.allclose(reader(ids, [each.flip(-1) for each in weights]), reader(ids))
    # None: a block keeps its own, which follow from what the block before it gave.
    torch.testing.assert_close(reader(ids, [weights[0], None]), reader(ids))
    flipped = weights[0].flip(-1)
    assert not torch.allclose(reader(ids, [flipped, None]), reader(ids, [flipped, weights[1]]))


def test_a_reader_is_taught_the_same_twice_and_not_what_is_held_out():
    lesson = {"steps": 8, "batch_size": 4, "num_heads": 2, "num_layers": 1}
    seen = draw_sentences(32, seed=1)
    same, again = (teach_agreement(seed=1, **lesson) for _ in range(2))
    other = teach_agreement(seed=1, **lesson, held_out=seen[:5])
    assert not same.training
    assert all(torch.equal(a, b) for a, b in zip(same.parameters(), again.parameters(), strict=True))
    assert not torch.equal(same.answer.weight, other.answer.weight)


def test_a_reader_learns_in_200_steps_more_than_the_nearest_noun_tells():
    hard = [sentence for sentence in draw_sentences(2000, seed=5) if sentence.attractors == 1]
    reader = teach_agreement(seed=0, steps=200, held_out=hard)
    ids, numbers = as_tensors(hard)
    with torch.no_grad():
        right = (reader(ids).argmax(-1) == numbers).double().mean().item()
    nearest = sum(sentence.last_noun == sentence.number for sentence in hard) / len(hard)
    assert nearest < 0.6 and right > 0.75


def test_the_values_of_grouped_heads_are_those_of_their_group():
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 4, num_kv_heads=2).double()
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    output = layer(x)
    torch.testing.assert_close(apply_weights(layer, x, output.attention_weights), output.hidden_states)


def test_heads_that_are_taken_out_contribute_nothing_and_come_back():
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 4).double()
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    whole, before = layer(x).hidden_states, layer.w_o.weight.clone()
    # The output is a sum over heads, plus the bias once.
    with without_heads(layer, range(4)):
        bias = layer(x).hidden_states
    alone = []
    for head in range(4):
        with without_heads(layer, set(range(4)) - {head}):
            alone.append(layer(x).hidden_states - bias)
    torch.testing.assert_close(sum(alone) + bias, whole)
    with pytest.raises(RuntimeError, match="planted"), without_heads(layer, [1]):
        raise RuntimeError("planted")
    assert torch.equal(layer.w_o.weight, before)


def test_the_same_seed_gives_the_same_reader_and_leaves_other_draws_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, same, other = (Reader(9, 2, ask=8, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not torch.equal(one.tokens.weight, other.tokens.weight)


def test_padding_changes_no_answer():
    reader = Reader(9, 2, ask=8, d_model=16, num_heads=2, seed=0).double()
    short, padded = torch.tensor([[1, 2, 8, 3]]), torch.tensor([[1, 2, 8, 3, 0, 0, 0]])
    torch.testing.assert_close(reader(padded), reader(short))


def test_training_learns_what_only_the_place_tells():
    """Which of two tokens comes first: a bag of words cannot know."""
    generator = torch.Generator().manual_seed(0)
    answers = torch.randint(2, (60, 64), generator=generator)
    ids = torch.stack([1 + answers, 2 - answers, torch.full_like(answers, 3)], -1)  # 1 2 ask, or 2 1 ask
    reader = Reader(4, 2, ask=3, d_model=16, num_heads=2, num_layers=1, seed=0)
    losses = train(reader, zip(ids, answers))
    assert len(losses) == 60 and losses[-1] < 0.1 < 0.5 < losses[0]
    assert not reader.training
    assert torch.equal(reader(torch.tensor([[1, 2, 3], [2, 1, 3]])).argmax(-1), torch.tensor([0, 1]))

"""The language pair and its translator: pairs are what the rules allow, the block is PyTorch's, a cache changes nothing, and what is taught is learned."""

import re

import pytest
import torch
from torch import nn

from attn_lib.learned import (
    START,
    STOP,
    DecoderBlock,
    Translator,
    draw_pairs,
    english_vocabulary,
    is_held_out,
    japanese_vocabulary,
    pairs_as_tensors,
    share_aligned,
    share_predicted,
    share_translated,
    teach_translation,
    translate,
    translate_with_cache,
    write_pair,
)
from attn_lib.learned.translation import FIELDS, PLACES, SUBJECTS, TOPICS, VERBS

# A reader of the English that shares nothing with the writer of the pairs but the words.
SENTENCE = re.compile(
    rf"(?P<subject>{'|'.join(SUBJECTS)}) (?:(?P<aux>do|does) not )?"
    rf"(?P<verb>{'|'.join(form for verb, (with_s, *_) in VERBS.items() for form in (with_s, verb))}) "
    rf"(?:the (?P<field>{'|'.join(FIELDS)}) of )?(?P<topic>{'|'.join(TOPICS)})(?: at (?P<place>{'|'.join(PLACES)}))?"
)
THIRD_PERSON = {"he", "she", "the teacher", "my friend"}


def by_parsing(english: tuple[str, ...]) -> tuple[str, list[list[str]], tuple[str, str]]:
    """The translation in one string, the English phrase behind each of its tokens, and its verb and topic."""
    found = SENTENCE.fullmatch(" ".join(english))
    assert found, english
    subject, aux, said, field, topic, place = found.group("subject", "aux", "verb", "field", "topic", "place")
    (verb,) = [verb for verb, (with_s, *_) in VERBS.items() if said in (verb, with_s)]
    third = subject in THIRD_PERSON
    assert aux in (None, "does" if third else "do")
    assert said == (VERBS[verb][0] if third and aux is None else verb)
    _, particle, stem, _ = VERBS[verb]
    if stem in ("大好き", "好き", "必要"):
        ending = "です" if aux is None else "ではありません"
    else:
        ending = "ます" if aux is None else "ません"
    parts = [(SUBJECTS[subject][0], subject)]
    if place:
        assert particle == "を"
        parts += [(PLACES[place], f"at {place}"), ("で", f"at {place}")]
    parts += [(word, topic) for word in TOPICS[topic].split()]
    if field:
        parts += [("の", f"the {field} of"), (FIELDS[field], f"the {field} of")]
    parts += [(particle, ""), (stem, said), (ending, f"{aux} not" if aux else ""), ("。", "")]
    return " ".join(token for token, _ in parts), [phrase.split() for _, phrase in parts], (verb, topic)


@pytest.fixture(scope="module")
def pairs():
    return draw_pairs(3000, seed=11) + draw_pairs(1000, seed=12, held_out=True)


def test_pairs_are_as_the_rules_say(pairs):
    for number, pair in enumerate(pairs):
        japanese, phrases, verb_and_topic = by_parsing(pair.english)
        assert " ".join(pair.japanese) == japanese
        assert [[pair.english[place] for place in places] for places in pair.alignment] == phrases
        assert is_held_out(*verb_and_topic) == (number >= 3000)


def test_the_parser_sees_a_wrong_translation():
    pair = write_pair("she", "teach", "music", negated=True)
    assert by_parsing(pair.english)[0] == "彼女は 音楽 を 教え ません 。" != " ".join(pair.japanese[::-1])
    with pytest.raises(AssertionError):
        by_parsing(("she", "do", "not", "teach", "music"))


def test_no_verb_and_no_topic_is_new_when_their_pair_is_held_out():
    apart = {(verb, topic) for verb in VERBS for topic in TOPICS if is_held_out(verb, topic)}
    assert len(apart) == 18 and ("love", "machine learning") in apart
    for verb in VERBS:
        assert sum(pair[0] == verb for pair in apart) == 2
    for topic in TOPICS:
        assert sum(pair[1] == topic for pair in apart) <= 2


def test_after_the_subject_the_order_is_turned_round(pairs):
    """Which is what the chapter says: each phrase stands before that of the token before it."""
    for pair in pairs:
        firsts = [places[0] for places in pair.alignment[1:] if places]
        assert firsts == sorted(firsts, reverse=True)
        assert pair.alignment[0][0] == 0


def test_the_same_seed_gives_the_same_pairs():
    assert draw_pairs(50, seed=1) == draw_pairs(50, seed=1) != draw_pairs(50, seed=2)
    assert draw_pairs(20, seed=1) == draw_pairs(50, seed=1)[:20]


def test_vocabularies_have_every_token(pairs):
    english, japanese = english_vocabulary(), japanese_vocabulary()
    said = {token for pair in pairs for token in pair.english}, {token for pair in pairs for token in pair.japanese}
    assert said[0] == set(english.tokens[1:])
    assert said[1] | {START} == set(japanese.tokens[1:])


def test_the_decoder_reads_one_place_behind_its_answers(pairs):
    (_, target), answers = pairs_as_tensors(pairs[:100])
    assert (target[:, 0] == japanese_vocabulary().id(START)).all()
    later = answers[:, :-1] != -100
    assert torch.equal(target[:, 1:][later], answers[:, :-1][later])
    assert ((answers == japanese_vocabulary().id(STOP)).sum(1) == 1).all()
    (_, unshifted), _ = pairs_as_tensors(pairs[:100], is_shifted=False)
    assert torch.equal(unshifted[answers != -100], answers[answers != -100])


def small(**settings) -> Translator:
    """A translator whose numbers are large enough to tell one output from another."""
    settings = {"start": 1, "stop": 8, "d_model": 12, "num_heads": 3, "num_layers": 2, "max_length": 9} | settings
    return Translator(7, 9, seed=3, **settings).double()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: write_pair("it", "love", "music"), "subject must be one of ['I', 'you', "),
        (lambda: write_pair("I", "loves", "music"), "verb must be one of ['love', "),
        (lambda: write_pair("I", "love", "cats"), "topic must be one of ['machine learning', "),
        (lambda: write_pair("I", "love", "music", field="end"), "field must be one of ['theory', "),
        (lambda: write_pair("I", "teach", "music", place="sea"), "place must be one of ['home', "),
        (lambda: write_pair("I", "love", "music", place="home"), "place must be None with 'love', which has が, got"),
        (lambda: is_held_out("loves", "music"), "verb must be one of"),
        (lambda: draw_pairs(0, seed=1), "count must be"),
        (lambda: draw_pairs(1, seed=-1), "seed must be"),
        (lambda: pairs_as_tensors([]), "sentences must be one or more"),
        (lambda: teach_translation(seed=0, steps=0), "steps must be"),
        (lambda: small(start=9), "start must be below num_target_tokens = 9, got 9"),
        (lambda: small(stop=0), "stop must be an integer of at least 1"),
        (lambda: small(max_length=2).encode(torch.ones(1, 3, dtype=torch.long)), "source must be [B, T], at most 2"),
        (lambda: translate_with_cache(small(is_causal=False), torch.tensor([[1]])), "cache needs a causal layer"),
        (lambda: share_aligned(small(), [], rows_off=-1), "rows_off must be"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_a_yes_or_no_is_no_word():
    for call in (
        lambda: write_pair("I", "love", "music", negated="no"),
        lambda: draw_pairs(1, seed=1, held_out="no"),
        lambda: pairs_as_tensors(draw_pairs(1, seed=1), is_shifted=1),
    ):
        with pytest.raises(TypeError, match="must be True or False"):
            call()


def copied(block: DecoderBlock) -> nn.TransformerDecoderLayer:
    """PyTorch's layer with the block's parameters."""
    D = block.attention_norm.normalized_shape[0]
    layer = nn.TransformerDecoderLayer(
        D, block.attention.num_heads, 2 * D, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    for theirs, ours in ((layer.self_attn, block.attention), (layer.multihead_attn, block.cross_attention)):
        maps = [ours.w_q, ours.w_k, ours.w_v]
        theirs.in_proj_weight.data = torch.cat([each.weight for each in maps])
        theirs.in_proj_bias.data = torch.cat([each.bias for each in maps])
        theirs.out_proj.load_state_dict(ours.w_o.state_dict())
    for theirs, ours in (
        (layer.norm1, block.attention_norm),
        (layer.norm2, block.cross_norm),
        (layer.norm3, block.network_norm),
        (layer.linear1, block.network[0]),
        (layer.linear2, block.network[2]),
    ):
        theirs.load_state_dict(ours.state_dict())
    return layer


@pytest.mark.parametrize("is_causal", [True, False])
def test_a_decoder_block_is_pytorchs_decoder_layer(is_causal):
    torch.manual_seed(0)
    block = DecoderBlock(12, 3, is_causal=is_causal).double()
    for norm in (block.attention_norm, block.cross_norm, block.network_norm):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    x, context = torch.randn(2, 5, 12, dtype=torch.float64), torch.randn(2, 4, 12, dtype=torch.float64)
    real = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1) if is_causal else None  # True is hidden there
    theirs = copied(block).double()(x, context, tgt_mask=hidden, memory_key_padding_mask=real == 0)
    torch.testing.assert_close(block(x, context, real), theirs)


def test_no_token_sees_what_comes_after_it_and_a_leak_is_seen():
    source, target = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 3, 4]])
    changed = torch.tensor([[1, 2, 3, 5]])
    causal, leaky = small(), small(is_causal=False)
    assert torch.equal(causal(source, target)[:, :3], causal(source, changed)[:, :3])
    assert not torch.allclose(leaky(source, target)[:, :3], leaky(source, changed)[:, :3])


def test_padding_changes_nothing():
    model, target = small(), torch.tensor([[1, 2, 3]])
    short, padded = torch.tensor([[1, 2]]), torch.tensor([[1, 2, 0, 0, 0]])
    torch.testing.assert_close(model(padded, target), model(short, target))
    assert not torch.allclose(model.decode(target, model.encode(padded)), model(short, target))


def test_the_weights_are_those_of_the_pass():
    model, source, target = small(), torch.tensor([[1, 2, 3, 0], [4, 5, 6, 2]]), torch.tensor([[1, 2], [1, 3]])
    found = []
    hooks = [
        block.cross_attention.register_forward_hook(lambda *call: found.append(call[-1].attention_weights))
        for block in model.decoder
    ]
    model(source, target)
    for hook in hooks:
        hook.remove()
    weights = model.cross_attention_weights(source, target)
    assert [tuple(each.shape) for each in weights] == [(2, 3, 2, 4)] * 2
    for ours, seen in zip(weights, found, strict=True):
        torch.testing.assert_close(ours, seen)


def test_a_cache_changes_no_score():
    model, source = small(), torch.tensor([[1, 2, 3], [4, 5, 0]])
    target = torch.tensor([[1, 2, 3, 4, 5], [1, 6, 7, 2, 3]])
    context, real = model.encode(source), source != 0
    caches = model.make_caches(batch_size=2)
    parts = [model.decode(part, context, real, caches=caches) for part in target.split([1, 3, 1], dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(source, target))
    assert [cache.length for cache in caches] == [5, 5]


class Scripted(Translator):
    """Writes what it is told, whatever it reads."""

    def __init__(self, sentences):
        super().__init__(7, 9, start=1, stop=8, d_model=4, max_length=6)
        self.sentences = torch.tensor(sentences)

    def decode(self, target, context, real=None, *, caches=None):
        past = 0 if caches is None else len(self.seen)
        self.seen = target if past == 0 else torch.cat([self.seen, target], dim=1)
        place = (self.seen if caches is not None else target).shape[1] - 1
        return nn.functional.one_hot(self.sentences[:, place : place + 1], 9).double()


def test_greedy_decoding_ends_at_the_stop_token_and_at_the_longest_sentence():
    source = torch.tensor([[1], [2]])
    early_and_late = Scripted([[2, 8, 5, 5, 5, 5], [3, 4, 5, 8, 6, 6]])
    assert translate(early_and_late, source).tolist() == [[2, 8, 0, 0], [3, 4, 5, 8]]
    endless = Scripted([[2, 3, 2, 3, 2, 3], [2, 8, 2, 2, 2, 2]])
    assert translate(endless, source).tolist() == [[2, 3, 2, 3, 2], [2, 8, 0, 0, 0]]


def test_a_translation_does_not_depend_on_who_stands_beside_it():
    model = small()
    sources = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0], [2, 0, 0, 0]])
    together = translate(model, sources)
    assert torch.equal(translate_with_cache(model, sources), together)
    for row, source in zip(together, sources, strict=True):
        alone = translate(model, source[source != 0][None])[0]
        assert torch.equal(row[: len(alone)], alone) and not row[len(alone) :].any()


def test_the_same_seed_gives_the_same_translator_and_leaves_other_draws_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, same = small(), small()
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))


# What the chapter says of its five translators, of others: seeds that it does not train.


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As in the chapter: threads that wait for each other in so small a model take many times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=[10, 11])
def taught(request):
    return teach_translation(seed=request.param)


@pytest.fixture(scope="module")
def held_out():
    return draw_pairs(300, seed=1_000_000, held_out=True)


def test_a_translator_translates_what_it_never_read(taught, held_out):
    assert share_translated(taught, held_out) >= 0.9
    (source, _), _ = pairs_as_tensors(held_out)
    assert torch.equal(translate_with_cache(taught, source), translate(taught, source))


def test_its_weights_show_which_phrase_it_translates_and_one_row_off_they_do_not(taught, held_out):
    (right,), (off,) = share_aligned(taught, held_out), share_aligned(taught, held_out, rows_off=1)
    assert right >= 0.75
    assert right - off > 1 / 3


@pytest.mark.parametrize(
    ("mistake", "steps"), [({"is_causal": False}, 300), ({"is_shifted": False}, 100)], ids=["leak", "not shifted"]
)
def test_what_looks_learned_in_training_is_not(mistake, steps, held_out):
    model = teach_translation(seed=10, steps=steps, **mistake)
    assert share_predicted(model, held_out, is_shifted=mistake.get("is_shifted", True)) >= 0.95
    assert share_translated(model, held_out) < 0.5


def test_shares_are_counted_as_they_are_called():
    """By a model that writes what it is told: half of the sentences, and so many of the tokens."""
    (good, bad) = write_pair("I", "love", "music"), write_pair("we", "love", "art")
    (_, target), answers = pairs_as_tensors([good, bad])
    japanese = japanese_vocabulary()

    class Half(Translator):
        def decode(self, target, context, real=None, *, caches=None):
            told = answers.clone()
            told[1, 1] = japanese.id("数学")  # one of twelve tokens is wrong
            return nn.functional.one_hot(told[:, : target.shape[1]], len(japanese)).double()

    model = Half(len(english_vocabulary()), len(japanese), start=japanese.id(START), stop=japanese.id(STOP))
    assert answers.tolist() != target.tolist() and answers.shape == (2, 6)
    assert share_translated(model, [good, bad]) == 0.5
    assert share_predicted(model, [good, bad]) == pytest.approx(11 / 12)


def test_an_alignment_is_counted_in_the_row_that_writes_the_token():
    pair = write_pair("I", "love", "music")  # 私は 音楽 が 大好き です 。

    class Looks(Translator):
        rows = (0, 2, 2, 1, 0, 0)  # I, music, music, love

        def cross_attention_weights(self, source, target):
            weights = torch.zeros(1, 2, 6, 3)
            weights[0, 0, range(6), self.rows] = 1  # head 0 looks where it should
            weights[0, 1, :, 0] = 1  # head 1 at the subject alone
            return [weights]

    model = Looks(9, 9, start=1, stop=2, d_model=4)
    assert share_aligned(model, [pair]).tolist() == pytest.approx([1, 1 / 3])
    # one row off: 私は is read at 2, 音楽 at 2, 大好き at 0
    assert share_aligned(model, [pair], rows_off=1)[0].item() == pytest.approx(1 / 3)

"""Small models that are trained while a chapter runs, and the small languages that they learn: what the weights of real training say.

From the ground up: ``vocabulary``, ``agreement`` (a language), ``batches``, ``blocks``, ``reader`` (a model), ``training``,
``lesson``; and for the chapter on translation ``translation`` (a language pair), ``translator`` (a model), ``greedy`` (how
it writes), ``translation_lesson``, ``translation_quality``. ``explaining`` and ``retrieval`` stand
beside them and are imported by their names.

>>> from attn_lib.learned import BLANK, Vocabulary, draw_sentences
>>> sentence = draw_sentences(1, seed=1)[0]
>>> BLANK in sentence.tokens, sentence.number in (0, 1)
(True, True)
"""

from attn_lib.learned.agreement import (
    BLANK,
    RULES,
    Agreement,
    agreement_vocabulary,
    draw_sentences,
)
from attn_lib.learned.batches import batches_by_length
from attn_lib.learned.blocks import Block, apply_weights, without_heads
from attn_lib.learned.greedy import translate, translate_with_cache
from attn_lib.learned.lesson import as_tensors, teach_agreement
from attn_lib.learned.reader import Reader
from attn_lib.learned.training import train
from attn_lib.learned.translation import (
    START,
    STOP,
    TRANSLATION_RULES,
    Pair,
    draw_pairs,
    english_vocabulary,
    is_held_out,
    japanese_vocabulary,
    write_pair,
)
from attn_lib.learned.translation_lesson import pairs_as_tensors, teach_translation
from attn_lib.learned.translation_quality import share_aligned, share_predicted, share_translated
from attn_lib.learned.translator import DecoderBlock, Translator
from attn_lib.learned.vocabulary import Vocabulary

__all__ = [
    "BLANK",
    "RULES",
    "START",
    "STOP",
    "TRANSLATION_RULES",
    "Agreement",
    "Block",
    "DecoderBlock",
    "Pair",
    "Reader",
    "Translator",
    "Vocabulary",
    "agreement_vocabulary",
    "apply_weights",
    "as_tensors",
    "batches_by_length",
    "draw_pairs",
    "draw_sentences",
    "english_vocabulary",
    "is_held_out",
    "japanese_vocabulary",
    "pairs_as_tensors",
    "share_aligned",
    "share_predicted",
    "share_translated",
    "teach_agreement",
    "teach_translation",
    "train",
    "translate",
    "translate_with_cache",
    "without_heads",
    "write_pair",
]

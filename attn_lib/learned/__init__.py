"""Small models that are trained while a chapter runs, and the small languages that they learn: what the weights of real training say.

From the ground up: ``vocabulary``, ``agreement`` (a language), ``batches``, ``blocks``, ``reader`` (a model), ``training``,
``lesson``. ``explaining`` and ``retrieval`` stand beside them and are imported by their names.

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
from attn_lib.learned.lesson import as_tensors, teach_agreement
from attn_lib.learned.reader import Reader
from attn_lib.learned.training import train
from attn_lib.learned.vocabulary import Vocabulary

__all__ = [
    "BLANK",
    "RULES",
    "Agreement",
    "Block",
    "Reader",
    "Vocabulary",
    "agreement_vocabulary",
    "apply_weights",
    "as_tensors",
    "batches_by_length",
    "draw_sentences",
    "teach_agreement",
    "train",
    "without_heads",
]

"""Batches in which little is padded."""

from __future__ import annotations

import random
from collections.abc import Sequence

from attn_lib.errors import require, require_integer

STRETCH = 8  # batches that are sorted together: more would leave less to chance


def batches_by_length(sequences: Sequence, batch_size: int, *, seed: int) -> list[list]:
    """Put sequences of like length together, since what pads takes as much time as what is read.

    Args:
        sequences: what has a length. The order counts: what comes in the first eight batches is sorted and cut, the
            batches are shuffled; then the next eight.
        batch_size: B; the last batch may be smaller.
        seed: of the shuffling, 0 or more.

    Returns:
        The batches; each sequence stands in one of them.

    Raises:
        TypeError: the size or the seed is no integer.
        ValueError: there is no sequence, or the size is smaller than 1.

    Source:
        Vaswani et al. 2017, section 5.1, where sentences are batched by their approximate length.

    In PyTorch:
        Nothing of the kind; a sampler would do.

    >>> batches_by_length(["a", "long", "b", "word"], 2, seed=0)
    [['a', 'b'], ['long', 'word']]
    """
    require_integer("batch_size", batch_size, 1)
    require_integer("seed", seed, 0)
    require(len(sequences) > 0, "sequences must be one or more, got none")
    draw = random.Random(seed)
    batches = []
    for start in range(0, len(sequences), STRETCH * batch_size):
        stretch = sorted(sequences[start : start + STRETCH * batch_size], key=len)
        cut = [stretch[place : place + batch_size] for place in range(0, len(stretch), batch_size)]
        draw.shuffle(cut)
        batches += cut
    return batches

"""Training, as short as it can be."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn_lib.errors import require


def train(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], *, learning_rate: float = 3e-3) -> list[float]:
    """Train a model in place, one step a batch, with the learning rate rising and falling once.

    Args:
        model: a module whose call gives scores ``[..., num_answers]``.
        batches: inputs and right answers ``[...]``, all of them before the first step; -100 is no answer.
        learning_rate: its highest value.

    Returns:
        The loss of each step, in nats. The model is in ``eval()`` afterwards.

    Raises:
        ValueError: there is no batch.

    Source:
        Loshchilov and Hutter 2019 (AdamW); Smith and Topin 2019 (the rate).

    In PyTorch:
        ``torch.optim.AdamW`` and ``torch.optim.lr_scheduler.OneCycleLR``, which this calls.

    >>> model = nn.Linear(1, 2)
    >>> losses = train(model, [(torch.ones(4, 1), torch.zeros(4, dtype=torch.long))] * 50)
    >>> losses[-1] < losses[0]
    True
    """
    batches = list(batches)
    require(len(batches) > 0, "batches must be one or more, got none")
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01, fused=True)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, learning_rate, total_steps=len(batches))
    losses = []
    model.train()
    for inputs, answers in batches:
        scores = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
        loss = F.cross_entropy(scores.flatten(0, -2), answers.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rate.step()
        losses.append(loss.item())
    model.eval()
    return losses

"""How this library refuses: name the argument, show what came, say what would fit."""

from __future__ import annotations

from torch import Tensor


def require(holds: bool, message: str) -> None:
    """Raise ``ValueError(message)`` unless the condition holds."""
    if not holds:
        raise ValueError(message)


def shape_of(tensor: Tensor) -> list[int]:
    """The shape as a plain list, which reads better in a message than ``torch.Size``."""
    return list(tensor.shape)

"""How this library refuses: name the argument, show what came, say what would fit."""

from __future__ import annotations

import sys
from collections.abc import Callable

from torch import Tensor


def require(holds: bool, message: str | Callable[[], str]) -> None:
    """Raise ``ValueError(message)`` unless the condition holds.

    On paths that are walked at every call the message is a function, built only when it is needed:
    some twenty formatted shapes would cost as much as attention over a short sequence.
    """
    if not holds:
        raise ValueError(message() if callable(message) else message)


def require_tensor(name: str, value: object) -> None:
    """Raise ``TypeError`` unless the value is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(value).__name__}")


def require_integer(name: str, value: object, least: int) -> None:
    """Raise ``TypeError`` unless the value is an integer, ``ValueError`` if it is below the least that fits."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    require(value >= least, lambda: f"{name} must be an integer of at least {least}, got {value!r}")


def require_bool(name: str, value: object) -> None:
    """Raise ``TypeError`` unless the value is True or False: a word like "no" would count as true."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def require_number(name: str, value: object) -> None:
    """Raise ``TypeError`` unless the value is a number, ``ValueError`` unless it is finite."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}")
    # Compared, not asked of math.isfinite, which torch.compile cannot trace for a symbolic number.
    most = sys.float_info.max
    require(-most <= value <= most, lambda: f"{name} must be a finite number, got {value!r}")


def shape_of(tensor: Tensor) -> list[int]:
    """The shape as a plain list, which reads better in a message than ``torch.Size``."""
    return list(tensor.shape)

"""Positions: attention itself knows no order, so it has to be told. Sinusoidal vectors are added, rotary ones turn."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_lib.errors import require, require_bool, require_integer, require_number, require_tensor, shape_of


def sinusoidal_positions(
    length: int, d_model: int, *, offset: int = 0, base: float = 10000.0, dtype: torch.dtype | None = None, device=None
) -> Tensor:
    """Vectors to add to the hidden states: sines in the even columns, cosines in the odd ones.

    Column pair i turns by ``base ** (-2 i / d_model)`` radians a position.

    Args:
        length: how many positions, T.
        d_model: width D; an odd one ends in a sine without its cosine.
        offset: the first position, for a sequence that goes on.
        base: the wavelengths lie between ``2 pi`` and ``2 pi base`` positions.
        dtype: of the result, the default dtype when left out. The angles are float64 inside.
        device: where the result is made.

    Returns:
        ``[T, D]``.

    Raises:
        TypeError: sizes that are no integers, a base that is no number.
        ValueError: sizes that are too small, a base that is not above 0.

    Source:
        Vaswani et al. 2017, section 3.5. Many implementations put all sines before all cosines; the
        paper, and this, alternate them.

    In PyTorch:
        No such function; ``nn.Transformer`` leaves positions to its caller.

    >>> sinusoidal_positions(2, 4, base=100.0)  # angles 0 and 0, then 1 and 0.1
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0998, 0.9950]])
    """
    require_integer("length", length, 0)
    require_integer("d_model", d_model, 1)
    require_integer("offset", offset, 0)
    angles = _angles(torch.arange(offset, offset + length, device=device), d_model, base)  # [T, ceil(D / 2)]
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)  # [T, D], or D + 1
    return pairs[:, :d_model].to(dtype or torch.get_default_dtype())


def rotate(tensor: Tensor, *, offset: int = 0, base: float = 10000.0, halves: bool = False) -> Tensor:
    """Turn every pair of columns by an angle proportional to the position.

    A query at position t and a key at position s, both turned, have a dot product that depends on t - s alone.

    Args:
        tensor: ``[..., T, Dk]``, queries or keys of a head; Dk is even.
        offset: the position of the first of the T.
        base: pair i turns by ``base ** (-2 i / Dk)`` radians a position.
        halves: False pairs neighbours, columns 2i and 2i + 1, as the paper does; True pairs column i with
            i + Dk / 2, as Llama weights in the Hugging Face format need it (Meta's own files pair neighbours).

    Returns:
        ``[..., T, Dk]`` in the tensor's dtype; angles are float64 and the turning at least float32.

    Raises:
        TypeError: what is no float tensor, an offset that is no integer.
        ValueError: an odd width, a negative offset, a base that is not above 0.

    Source:
        Su et al. 2021 (RoFormer), section 3.2.2.

    In PyTorch:
        No layer has it. ``torch.onnx.ops.rotary_embedding`` takes tables of cosines and sines, and pairs as
        ``halves=True`` does unless told otherwise.

    >>> rotate(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))  # by 0 radians, by 1 radian
    tensor([[1.0000, 0.0000],
            [0.5403, 0.8415]])
    """
    require_tensor("tensor", tensor)
    if not tensor.is_floating_point():
        raise TypeError(f"tensor must hold floats, got {tensor.dtype}")
    fits = tensor.dim() >= 2 and tensor.shape[-1] % 2 == 0 and tensor.shape[-1] > 0
    require(fits, lambda: f"tensor must be [..., T, Dk] with an even Dk, got {shape_of(tensor)}")
    require_integer("offset", offset, 0)
    require_bool("halves", halves)
    T, Dk = tensor.shape[-2:]
    angles = _angles(torch.arange(offset, offset + T, device=tensor.device), Dk, base)  # [T, Dk / 2]
    working = torch.promote_types(tensor.dtype, torch.float32)
    cos, sin = angles.cos().to(working), angles.sin().to(working)
    pairs = tensor.to(working).unflatten(-1, (2, Dk // 2) if halves else (Dk // 2, 2))
    x, y = pairs.unbind(-2 if halves else -1)  # [..., T, Dk / 2] each
    turned = torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-2 if halves else -1)
    return turned.flatten(-2).to(tensor.dtype)


@dataclass(frozen=True)
class RotaryPositions:
    """Rotary positions as a setting of a layer: ``MultiHeadAttention(..., positions=RotaryPositions())``.

    Args:
        base: as in :func:`rotate`.
        halves: as in :func:`rotate`.

    Raises:
        TypeError: a base that is no number, halves that is not True or False.
        ValueError: a base that is not above 0.

    Source:
        Su et al. 2021 (RoFormer), section 3.2.2.

    In PyTorch:
        No layer has rotary positions.

    >>> RotaryPositions()
    RotaryPositions(base=10000.0, halves=False)
    """

    base: float = 10000.0
    halves: bool = False

    def __post_init__(self):
        _check_base(self.base)
        require_bool("halves", self.halves)

    def __call__(self, tensor: Tensor, offset: int = 0) -> Tensor:
        """Turn queries or keys, as :func:`rotate` does with this base and these halves.

        Args:
            tensor: ``[..., T, Dk]``.
            offset: the position of the first of the T.

        Returns:
            ``[..., T, Dk]``.

        Raises:
            TypeError: as :func:`rotate`.
            ValueError: as :func:`rotate`.
        """
        return rotate(tensor, offset=offset, base=self.base, halves=self.halves)


def _angles(positions: Tensor, width: int, base: float) -> Tensor:
    """Position times frequency, in float64: in float32 the sine of position 100,000 has four right digits."""
    _check_base(base)
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width
    return positions[:, None] * base**-exponents  # [T, ceil(width / 2)]


def _check_base(base: float) -> None:
    require_number("base", base)
    require(base > 0, lambda: f"base must be above 0, got {base!r}")

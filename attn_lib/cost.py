"""What attention costs, predicted from its shape before anything runs."""

from __future__ import annotations

import torch

from attn_lib.errors import require_integer


def kv_cache_bytes(
    *,
    num_kv_heads: int,
    head_dim: int,
    value_dim: int | None = None,
    num_layers: int = 1,
    length: int = 1,
    batch_size: int = 1,
    dtype: torch.dtype = torch.float16,
) -> int:
    """Bytes of the keys and values that a model remembers while it writes.

    Each layer keeps keys ``[B, Hkv, length, Dk]`` and values ``[B, Hkv, length, Dv]``. How many heads ask
    does not matter.

    Args:
        num_kv_heads: Hkv, the heads that keys and values have.
        head_dim: width of a key, Dk.
        value_dim: Dv; Dk when left out. 0 where values are read out of the stored keys and take no room of their
            own: multi-head latent attention is one such head, as wide as its latent vector and its rotary part.
        num_layers: layers, each with a cache of its own.
        length: tokens; 1 gives the bytes for each token.
        batch_size: sequences, B.
        dtype: of what is stored.

    Returns:
        The bytes, exactly. A :class:`KVCache` of that ``max_length`` takes as many, by its ``nbytes``, in each layer.

    Raises:
        TypeError: a size that is no integer, a dtype that is none.
        ValueError: a size below 1 (``value_dim``, ``length``: below 0).

    Source:
        Shazeer 2019, section 3, for what one shared head saves; Ainslie et al. 2023, section 2.2, for groups.

    In PyTorch:
        Nothing predicts it; ``tensor.nbytes`` counts what is there.

    >>> kv_cache_bytes(num_layers=80, num_kv_heads=8, head_dim=128) // 1024  # Llama 2 70B, KiB for each token
    320
    >>> kv_cache_bytes(num_layers=80, num_kv_heads=64, head_dim=128) // 1024  # had its 64 heads not been grouped
    2560
    """
    value_dim = head_dim if value_dim is None else value_dim
    for name, size, least in (
        ("num_kv_heads", num_kv_heads, 1), ("head_dim", head_dim, 1), ("value_dim", value_dim, 0),
        ("num_layers", num_layers, 1), ("length", length, 0), ("batch_size", batch_size, 1),
    ):  # fmt: skip
        require_integer(name, size, least)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype must be a torch.dtype, got {dtype!r}")
    return num_layers * batch_size * length * num_kv_heads * (head_dim + value_dim) * dtype.itemsize

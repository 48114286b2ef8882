"""Keys and values of the tokens so far, so that the next token need not compute them again."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_lib.errors import require, require_integer, require_tensor, shape_of


class KVCache:
    """Room for the keys and values of ``max_length`` tokens, taken once and filled from the front.

    What is stored are numbers: no gradient flows back through a cache. A ``backward()`` through what attended
    to it comes before the next append, which writes into the same storage.

    Args:
        batch_size: how many sequences, B.
        num_kv_heads: Hkv; grouped heads are stored once, not once for each query head.
        max_length: how many tokens there is room for.
        head_dim: width of a key, Dk.
        value_dim: Dv; Dk when left out.
        dtype: of what is stored, the default dtype when left out.
        device: where it is stored.

    Raises:
        TypeError: a size that is no integer, a dtype that is not float.
        ValueError: a size below 1.

    Source:
        Shazeer 2019, section 2.4 (keys and values of earlier positions, kept in incremental decoding).

    In PyTorch:
        No layer keeps a cache. Appending by ``torch.cat`` copies everything at each step.

    >>> cache = KVCache(batch_size=1, num_kv_heads=2, max_length=8, head_dim=4)
    >>> prompt, token = torch.zeros(1, 2, 5, 4), torch.ones(1, 2, 1, 4)
    >>> keys, values = cache.append(prompt, prompt)
    >>> keys, values = cache.append(token, token)
    >>> keys.shape, cache.length
    (torch.Size([1, 2, 6, 4]), 6)
    """

    def __init__(
        self,
        batch_size: int,
        num_kv_heads: int,
        max_length: int,
        head_dim: int,
        *,
        value_dim: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ):
        value_dim = head_dim if value_dim is None else value_dim
        sizes = {
            "batch_size": batch_size, "num_kv_heads": num_kv_heads, "max_length": max_length,
            "head_dim": head_dim, "value_dim": value_dim,
        }  # fmt: skip
        for name, size in sizes.items():
            require_integer(name, size, 1)
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise TypeError(f"dtype must be a float dtype, got {dtype!r}")
        self.max_length = max_length
        self._keys = torch.zeros(batch_size, num_kv_heads, max_length, head_dim, dtype=dtype, device=device)
        shape = (batch_size, num_kv_heads, max_length, value_dim)
        if self._keys.device.type == "cpu" and dtype in (torch.float32, torch.float64):
            # Values lie in memory column by column: the weighted sum of one query then reads along it.
            self._values = torch.zeros(*shape[:2], value_dim, max_length, dtype=dtype, device=device).mT
        else:
            self._values = torch.zeros(shape, dtype=dtype, device=device)
        self._length = self._resets = 0

    @property
    def length(self) -> int:
        """How many tokens are in the cache."""
        return self._length

    @property
    def resets(self) -> int:
        """How often the cache was emptied. What was read from it before may have been written over since."""
        return self._resets

    @property
    def nbytes(self) -> int:
        """Bytes that the room for ``max_length`` keys and values takes, full or not; ``kv_cache_bytes`` predicts them."""
        return self._keys.nbytes + self._values.nbytes

    @torch.no_grad()
    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store the keys and values of the next N tokens.

        Args:
            key: ``[B, Hkv, N, Dk]``.
            value: ``[B, Hkv, N, Dv]``.

        Returns:
            All keys ``[B, Hkv, length, Dk]`` and all values ``[B, Hkv, length, Dv]`` so far, as views into the storage.

        Raises:
            TypeError: what is no tensor, another dtype.
            ValueError: another batch size, head count, width or device; more tokens than there is room for.
                The cache is then as it was.
        """
        self.check(key, value)
        start, stop = self._length, self._length + key.shape[-2]
        self._keys[:, :, start:stop] = key
        self._values[:, :, start:stop] = value
        self._length = stop
        return self._keys[:, :, : self._length], self._values[:, :, : self._length]

    def check(self, key: Tensor, value: Tensor) -> None:
        """Raise what :meth:`append` would raise, and store nothing.

        Args:
            key: ``[B, Hkv, N, Dk]``.
            value: ``[B, Hkv, N, Dv]``.

        Raises:
            TypeError: as :meth:`append`.
            ValueError: as :meth:`append`.
        """
        if self._keys.is_inference() and not torch.is_inference_mode_enabled():
            raise ValueError("this cache was made in inference_mode and can be filled only there; make it outside")
        for name, tensor, storage in (("key", key, self._keys), ("value", value, self._values)):
            require_tensor(name, tensor)
            B, Hkv, _, width = storage.shape
            if tensor.dtype != storage.dtype:
                raise TypeError(f"{name} must have the cache's dtype {storage.dtype}, got {tensor.dtype}")
            if tensor.device != storage.device:
                raise ValueError(f"{name} must be on the cache's device {storage.device}, got {tensor.device}")
            if tensor.dim() != 4 or (*tensor.shape[:2], tensor.shape[3]) != (B, Hkv, width):
                raise ValueError(
                    f"{name} must be [B, Hkv, N, width] = [{B}, {Hkv}, N, {width}], got {shape_of(tensor)}"
                )
        N = key.shape[-2]
        require(
            value.shape[-2] == N,
            lambda: f"value must be of as many tokens as key: key {shape_of(key)}, value {shape_of(value)}",
        )
        require(
            self._length + N <= self.max_length,
            lambda: (
                f"key brings {N} tokens, but the cache holds {self._length} of {self.max_length}:"
                f" {self.max_length - self._length} more would fit; make it with a larger max_length, or reset() it"
            ),
        )

    def reset(self) -> None:
        """Empty the cache; its storage stays where it is.

        Weights of earlier outputs that nobody has looked at yet can then no longer be computed.
        """
        self._length = 0
        self._resets += 1

    def __repr__(self) -> str:
        B, Hkv, max_length, Dk = self._keys.shape
        return f"KVCache({self._length} of {max_length} tokens, batch_size={B}, num_kv_heads={Hkv}, head_dim={Dk})"

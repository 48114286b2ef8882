"""What a call allocates and computes, counted and not timed: on a CPU the same to the byte in every process."""

from __future__ import annotations

import gc
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


def peak_bytes(run: Callable[[], object], *, device: torch.device | str = "cpu") -> int:
    """The most memory that was held at once while ``run`` ran, beside what was there before.

    On a CPU every allocation and release is read from the profiler's record; on a GPU the allocator keeps the
    peak itself.

    What ``run`` frees of the memory that was there before, and what other threads allocate, is not in the count; one
    count inside another takes it away from the outer one.

    Args:
        run: is called once. What it returns is held to the end.
        device: where it allocates.

    Returns:
        The bytes. On a CPU exactly what was asked for; on a GPU what the allocator gave, rounded up to its blocks.

    Source:
        ``torch.profiler`` with ``profile_memory``; ``torch.cuda.max_memory_allocated``.

    In PyTorch:
        Nothing gives a CPU's peak in one call.

    >>> x = torch.zeros(1000)  # 4000 bytes, there before
    >>> peak_bytes(lambda: (x + 1) + (x + 2))  # two sums, and the sum of both
    12000
    """
    collects = gc.isenabled()
    gc.disable()  # what it would free was there before
    try:
        return _peak_on_gpu(run, device) if torch.device(device).type == "cuda" else _peak_on_cpu(run)
    finally:
        if collects:
            gc.enable()


def _peak_on_gpu(run: Callable[[], object], device: torch.device | str) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = run()
    torch.cuda.synchronize(device)
    del result
    return torch.cuda.max_memory_allocated(device) - before


def _peak_on_cpu(run: Callable[[], object]) -> int:
    recorder = profile(profile_memory=True)
    with _no_log_lines():
        recorder.start()
    try:
        result = run()
    finally:
        with _no_log_lines():
            recorder.stop()
    del result
    events = [event for event in recorder.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


@contextmanager
def _no_log_lines() -> Iterator[None]:
    """The profiler says on the process's own stderr that it starts and stops; no setting turns that off."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class LargestTensor(TorchDispatchMode):
    """Inside it ``elements`` is the size of the largest tensor that any operation, backward ones too, has made."""

    elements = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        made = operation(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else [made]:
            if isinstance(each, torch.Tensor):
                # A view has no memory of its own: what lies behind it counts, and was counted when it was made.
                self.elements = max(self.elements, each.untyped_storage().nbytes() // each.element_size())
        return made


def count_flops(run: Callable[[], object]) -> int:
    """Floating point operations of all matrix products: two for each multiply and add.

    PyTorch's counter is told of the CPU's fused kernel, which it counts as nothing. A fused kernel counts as if it
    computed every pair of query and key, also where a causal order lets it skip some.

    Args:
        run: is called once.

    Returns:
        The FLOPs of matrix products, forward and, if ``run`` asks for gradients, backward. Additions, exponentials
        and divisions of a softmax are not among them, nor is what the counter does not know: a matrix times a vector,
        products written into their own input (``baddbmm_``), the fast path of ``nn.MultiheadAttention`` in ``eval()``.

    Source:
        ``torch.utils.flop_counter.FlopCounterMode``.

    In PyTorch:
        The same counter alone gives 0 for ``scaled_dot_product_attention`` on a CPU.

    >>> a, b = torch.zeros(3, 4), torch.zeros(4, 5)
    >>> count_flops(lambda: a @ b)  # 3 x 5 dot products of length 4
    120
    """
    aten = torch.ops.aten
    known = {
        aten._scaled_dot_product_flash_attention_for_cpu: _fused_flops,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: _fused_backward_flops,
    }
    with FlopCounterMode(display=False, custom_mapping=known) as counter:
        run()
    return counter.get_total_flops()


def _fused_flops(query: torch.Size, key: torch.Size, value: torch.Size, *_, **__) -> int:
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _fused_backward_flops(_, query: torch.Size, key: torch.Size, value: torch.Size, *__, **___) -> int:
    # The scores once more; then gradients of weights and values, of queries and keys.
    return 2 * math.prod(query[:-1]) * key[-2] * (3 * query[-1] + 2 * value[-1])


KERNELS = {  # by what PyTorch calls the operation that ran
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_flash_attention_for_cpu": "flash",
    "_scaled_dot_product_efficient_attention": "memory-efficient",
    "_scaled_dot_product_cudnn_attention": "cuDNN",
    "_scaled_dot_product_fused_attention_overrideable": "of the device's maker",
}


class _Kernels(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.seen.append(operation.overloadpacket.__name__)
        return operation(*args, **(kwargs or {}))


def sdpa_kernel_used(run: Callable[[], object]) -> str:
    """Which of PyTorch's kernels a call of ``scaled_dot_product_attention`` ran on.

    Args:
        run: makes one such call.

    Returns:
        "flash", "memory-efficient", "cuDNN", or "math". The last is the equation step by step, with the whole matrix of
        weights; whatever else multiplies matrices, without that function, is "math" too.

    Raises:
        ValueError: nothing in ``run`` multiplied matrices.

    Source:
        ``torch.nn.attention.SDPBackend``, for the names.

    In PyTorch:
        The choice is made inside, and is not told. ``torch.nn.attention.sdpa_kernel`` restricts it.

    >>> q = torch.zeros(1, 2, 8, 4)
    >>> sdpa_kernel_used(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q))
    'flash'
    """
    with _Kernels() as kernels:
        run()
    for name in kernels.seen:
        if name in KERNELS:
            return KERNELS[name]
    if not {"bmm", "matmul", "mm", "baddbmm"} & set(kernels.seen):
        raise ValueError(
            f"run must call scaled_dot_product_attention; it called {', '.join(kernels.seen) or 'nothing'}"
        )
    return "math"

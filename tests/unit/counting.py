"""What a call allocates and computes, counted and not timed: the same to the byte in every process."""

import gc
import math
from collections.abc import Callable

import torch
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


def peak_bytes(run: Callable[[], object]) -> int:
    """The most memory that was held at once beside what was there before, from the profiler's record of every allocation."""
    gc.collect()
    gc.disable()
    try:
        with profile(profile_memory=True) as recorded:
            result = run()
    finally:
        gc.enable()
    del result
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


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


def flops(run: Callable[[], object]) -> int:
    """Floating point operations of all matrix products; PyTorch's counter knows the CPU's fused kernel not at all."""
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with FlopCounterMode(display=False, custom_mapping={kernel: _fused_flops}) as counter:
        run()
    return counter.get_total_flops()


def _fused_flops(query: torch.Size, key: torch.Size, value: torch.Size, *_, **__) -> int:
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])

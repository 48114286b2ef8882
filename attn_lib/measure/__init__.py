"""What attention costs, counted and measured: FLOPs, memory, time, and how each of them grows.

counting    memory to the byte, FLOPs, which kernel ran
timing      several calls side by side
scaling     exponents, and where two curves cross
machine     what it was measured on
experiment  the whole of it, which ``python -m attn_lib measure`` runs
results     the file that it leaves; those that the book shows are in records/
"""

from attn_lib.measure.counting import count_flops, peak_bytes, sdpa_kernel_used
from attn_lib.measure.results import Results, find_results, load_results
from attn_lib.measure.scaling import crossing, fit_exponent, local_exponents
from attn_lib.measure.timing import Timing, compare_times, memory_kept

__all__ = [
    "Results",
    "Timing",
    "compare_times",
    "count_flops",
    "crossing",
    "find_results",
    "fit_exponent",
    "load_results",
    "local_exponents",
    "memory_kept",
    "peak_bytes",
    "sdpa_kernel_used",
]

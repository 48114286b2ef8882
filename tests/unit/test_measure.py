"""Counted and measured: bytes by hand, kernels by name, power laws that are known, clocks that are made up."""

import contextlib
import gc
import math
import os
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from attn_lib import attention
from attn_lib.measure import (
    compare_times,
    count_flops,
    crossing,
    fit_exponent,
    local_exponents,
    machine,
    memory_kept,
    peak_bytes,
    sdpa_kernel_used,
    timing,
)
from attn_lib.measure.counting import KERNELS

BEFORE = torch.zeros(1000)  # there before, and not counted


def one_after_the_other():
    first = BEFORE + BEFORE
    second = first + first
    del first
    return second + second


def large_in_between():
    large = torch.empty(5000)
    del large
    return torch.empty(10)


def in_circles():
    for _ in range(3):
        circle = [BEFORE.clone()]
        circle.append(circle)  # only the garbage collector would release it


@pytest.mark.parametrize(
    ("run", "held"),
    [
        (lambda: None, 0),
        (lambda: BEFORE.view(10, 100).T, 0),
        (BEFORE.double, 8000),
        (lambda: (BEFORE + BEFORE) + ((BEFORE + BEFORE) + (BEFORE + BEFORE)), 4000 + 2 * 4000 + 4000),
        (one_after_the_other, 8000),
        (large_in_between, 20_000),
        (lambda: [BEFORE.clone() for _ in range(3)], 12_000),
        (lambda: [BEFORE.clone().sum() for _ in range(3)][:0], 4000 + 3 * 4),
        (in_circles, 12_000),
    ],
    ids=[
        "nothing",
        "a view",
        "a copy",
        "nested",
        "released",
        "large in between",
        "held to the end",
        "dropped",
        "in circles",
    ],
)
def test_peak_by_hand(run, held):
    assert peak_bytes(run) == held


@pytest.mark.parametrize(("B", "H", "T", "S"), [(1, 2, 32, 64), (3, 4, 17, 8), (1, 1, 1, 1000)])
def test_the_equation_needs_two_matrices_at_once(B, H, T, S):
    query, key = torch.randn(B, H, T, 8), torch.randn(B, H, S, 8)
    matrix = B * H * T * S * 4
    # Scores and scaled scores, with the scale as PyTorch makes a tensor of it: in 8 bytes, and again in 4.
    peak = peak_bytes(lambda: attention(query, key, key, method="reference"))
    assert 2 * matrix <= peak <= 2 * matrix + 8 + 4
    # With fewer keys than a query is wide, weights and output are more.
    peak = peak_bytes(lambda: attention(query, key[..., :3, :], key[..., :3, :], method="reference"))
    assert peak == B * H * T * (3 + 8) * 4


def test_the_peak_is_the_same_every_time_and_on_the_way_back():
    query = torch.randn(1, 2, 64, 8, requires_grad=True)

    def train():
        return torch.autograd.grad(attention(query, query, query, method="tiled").sum(), query)

    assert peak_bytes(train) == peak_bytes(train) > peak_bytes(lambda: attention(query, query, query)) > 0


def lowest_free():
    """The numbers that the next two files get: they grow where one is left open."""
    numbers = [os.dup(0), os.dup(0)]
    for number in numbers:
        os.close(number)
    return numbers


def test_the_profiler_is_silent_and_others_are_heard(capfd):
    peak_bytes(lambda: None)
    free = lowest_free()
    assert peak_bytes(lambda: os.write(2, b"inside, ") and BEFORE.clone()) == 4000
    assert lowest_free() == free
    os.write(2, b"after, ")
    print("by name", file=sys.stderr)
    assert capfd.readouterr() == ("", "inside, after, by name\n")


def test_an_exception_gets_out_and_leaves_all_as_it_was(capfd):
    asleep = []

    def fail():
        asleep.append(not gc.isenabled())
        raise ZeroDivisionError("as planned")

    with pytest.raises(ZeroDivisionError, match="as planned"):
        peak_bytes(fail)
    assert asleep == [True]
    assert gc.isenabled()
    os.write(2, b"heard")
    assert capfd.readouterr() == ("", "heard")
    assert peak_bytes(BEFORE.clone) == 4000


def test_a_garbage_collector_that_rests_is_not_woken():
    gc.disable()
    try:
        assert peak_bytes(BEFORE.clone) == 4000
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda", 1)], ids=repr)
def test_a_gpu_keeps_its_peak_itself(monkeypatch, device):
    seen = []

    def tell(name, number=None):
        def told(on):
            assert torch.device(on) == torch.device(device)
            seen.append(name)
            return number

        return told

    monkeypatch.setattr(torch.cuda, "synchronize", tell("wait"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", tell("reset"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", tell("before", 1000))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", tell("peak", 5096))
    assert peak_bytes(lambda: seen.append("run"), device=device) == 4096
    assert seen == ["wait", "reset", "before", "run", "wait", "peak"]


B, H, T, S, DK = 2, 3, 6, 10, 4


def inputs(requires_grad=False):
    return [torch.randn(B, H, length, DK, requires_grad=requires_grad) for length in (T, S, S)]


def counted_alone(run):
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_fused_kernel_of_the_cpu_is_counted(is_causal):
    query, key, value = inputs(requires_grad=True)
    product = 2 * B * H * T * S * DK

    def forward():
        return scaled_dot_product_attention(query, key, value, is_causal=is_causal)

    assert count_flops(forward) == 2 * product
    output = forward().sum()
    # The scores again, then what weights, values, queries and keys get.
    assert count_flops(output.backward) == 5 * product
    assert count_flops(lambda: forward().sum().backward()) == 7 * product


def test_widths_of_keys_and_values_count_apart():
    # PyTorch has no kernel for this on a CPU; the formulas are asked as they stand.
    tensors = [torch.empty(shape, device="meta") for shape in ((2, 3, 6, 4), (2, 3, 10, 4), (2, 3, 10, 7))]
    kernel, pairs = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu, 2 * 3 * 6 * 10
    assert count_flops(lambda: kernel(*tensors)) == 2 * pairs * (4 + 7)


def test_pytorch_alone_counts_nothing_there():
    # Where this fails, PyTorch has learned to count it, and count_flops need not say how.
    tensors = inputs(requires_grad=True)
    assert counted_alone(lambda: scaled_dot_product_attention(*tensors).sum().backward()) == 0
    layer, x, square = (
        torch.nn.MultiheadAttention(8, 2, batch_first=True).eval(),
        torch.randn(1, 5, 8),
        torch.ones(2, 3, 3),
    )
    with torch.no_grad():
        assert counted_alone(lambda: layer(x, x, x, need_weights=False)) == 0
    assert counted_alone(lambda: square.baddbmm_(square, square)) == 0


def test_products_by_hand():
    left, right = torch.ones(3, 4), torch.ones(4, 5)
    assert count_flops(lambda: (left @ right).exp().sum()) == 2 * 3 * 4 * 5
    assert count_flops(lambda: left + left) == 0


@pytest.mark.parametrize("restriction", [{}, {"is_causal": True}, {"attn_mask": torch.ones(T, S) > 0}], ids=str)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_plain_call_runs_on_the_fused_kernel(restriction, requires_grad):
    tensors = inputs(requires_grad)
    assert sdpa_kernel_used(lambda: scaled_dot_product_attention(*tensors, **restriction)) == "flash"


def test_the_equation_step_by_step_is_called_math():
    def restricted():
        with sdpa_kernel(SDPBackend.MATH):
            scaled_dot_product_attention(*inputs())

    assert sdpa_kernel_used(restricted) == "math"
    query, key, _ = inputs()
    assert sdpa_kernel_used(lambda: scaled_dot_product_attention(query, key, torch.ones(B, H, S, 7))) == "math"
    assert sdpa_kernel_used(lambda: attention(query, key, key, method="reference")) == "math"
    assert sdpa_kernel_used(lambda: attention(query, key, key)) == "flash"


@pytest.mark.parametrize(("run", "said"), [(lambda: BEFORE + BEFORE, "it called add$"), (list, "it called nothing$")])
def test_without_a_product_no_kernel_is_named(run, said):
    with pytest.raises(ValueError, match=f"^run must call scaled_dot_product_attention; {said}"):
        sdpa_kernel_used(run)


@pytest.mark.parametrize("name", KERNELS)
def test_pytorch_still_calls_its_kernels_by_these_names(name):
    assert hasattr(torch.ops.aten, name)


SIZES = st.lists(st.integers(1, 10_000), min_size=2, max_size=8, unique=True).map(sorted)
POWERS = st.floats(-3, 3)
FACTORS = st.floats(1e-3, 1e3)


@settings(deadline=None)
@given(sizes=SIZES, power=POWERS, factor=FACTORS, order=st.randoms(use_true_random=False))
def test_the_exponent_of_a_power_law_is_found(sizes, power, factor, order):
    costs = [factor * size**power for size in sizes]
    assert local_exponents(sizes, costs) == pytest.approx([power] * (len(sizes) - 1), abs=1e-9)
    shuffled = order.sample(list(zip(sizes, costs, strict=True)), len(sizes))
    assert fit_exponent(*zip(*shuffled, strict=True)) == pytest.approx(power, abs=1e-9)


@settings(deadline=None)
@given(sizes=SIZES, data=st.data())
def test_the_best_exponent_is_that_of_least_squares(sizes, data):
    costs = data.draw(st.lists(st.floats(0.1, 100), min_size=len(sizes), max_size=len(sizes)))
    x, y = np.log(sizes), np.log(costs)
    x = x - x.mean()
    assert fit_exponent(sizes, costs) == pytest.approx(float(x @ (y - y.mean()) / (x @ x)), abs=1e-6)


def test_exponents_by_hand():
    # Equal steps in the logarithm: what stands in the middle moves the line, and does not turn it.
    assert fit_exponent([1, 2, 4], [1, 1000, 16]) == 2.0
    assert local_exponents([1, 2, 4], [1, 8, 4]) == [3.0, -1.0]
    assert fit_exponent([4, 1], [5, 5]) == fit_exponent([1, 2], [1, 1]) == 0.0
    assert all(type(each) is float for each in local_exponents(np.array([1, 2, 4]), np.array([1, 2, 4])))


@settings(deadline=None)
@given(sizes=SIZES, share=st.floats(0.01, 0.99), power=POWERS, steeper=st.floats(0.1, 3), factor=FACTORS)
def test_two_power_laws_cross_where_they_are_equal(sizes, share, power, steeper, factor):
    at = sizes[0] ** (1 - share) * sizes[-1] ** share
    first = [factor * size**power for size in sizes]
    second = [cost * (size / at) ** steeper for cost, size in zip(first, sizes, strict=True)]
    assert crossing(sizes, first, second) == pytest.approx(at, rel=1e-9)


def test_crossings_by_hand():
    assert crossing([1, 2, 4], [4, 4, 4], [1, 4, 16]) == 2.0  # equal at a measured size
    assert crossing([4, 8], [1, 1], [0.5, 2]) == pytest.approx(4 * 2**0.5)  # in the middle of the logarithms
    assert crossing([1, 2, 4, 8, 16], [1] * 5, [0.5, 2, 0.5, 2, 2]) == pytest.approx(4 * 2**0.5)  # the last of two


UP, LEVEL, DOWN = [1, 2, 4], [2, 2, 2], [4, 2, 1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fit_exponent(UP, [1, 2]), "costs must be as many as sizes, 3, got 2"),
        (lambda: local_exponents(UP, [1, 2]), "costs must be as many as sizes, 3, got 2"),
        (lambda: crossing(UP, LEVEL, [1, 2]), ".* must be as many as sizes, 3, got 2"),
        (lambda: crossing(UP, [1, 2], LEVEL), ".* must be as many as sizes, 3, got 2"),
        (lambda: fit_exponent([2], [2]), r"sizes must hold two different ones, got \[2\]"),
        (lambda: fit_exponent([], []), r"sizes must hold two different ones, got \[\]"),
        (lambda: fit_exponent(LEVEL, UP), r"sizes must hold two different ones, got \[2, 2, 2\]"),
        (lambda: fit_exponent([0, 1], [1, 2]), "sizes must be finite and above 0 to have a logarithm, got 0"),
        (lambda: fit_exponent([1, 2], [math.nan, 1]), "costs must be"),
        (lambda: fit_exponent([1, 2], [1, math.nan]), "costs must be"),
        (lambda: local_exponents([1, math.nan], [1, 2]), "sizes must"),
        (lambda: fit_exponent([1, 2], [1, -2]), "costs must be finite and above 0 to have a logarithm, got -2"),
        (lambda: crossing([1, 2], [1, 0], [1, 2]), "first must be finite and above 0 to have a logarithm, got 0"),
        (lambda: crossing([1, 2], [1, 1], [0, 2]), "second must be finite and above 0 to have a logarithm, got 0"),
        (lambda: local_exponents(DOWN, UP), r"sizes must ascend, got \[4, 2, 1\]"),
        (lambda: local_exponents([1, 2, 2, 4], [1, 2, 2, 4]), r"sizes must ascend, got \[1, 2, 2, 4\]"),
        (lambda: crossing(DOWN, LEVEL, UP), r"sizes must ascend, got \[4, 2, 1\]"),
        (
            lambda: crossing(UP, LEVEL, [4, 4, 8]),
            "the second cost must rise above the first between sizes 1 and 4, and stay there; it is 2 times the first"
            + " at the start, 4 times at the end",
        ),
        (lambda: crossing(UP, LEVEL, [1, 1, 1]), "the second cost .* 0.5 times the first at the start, 0.5 times"),
        (lambda: crossing(UP, LEVEL, [1, 4, 1]), "the second cost .* 0.5 times the first at the start, 0.5 times"),
        (lambda: crossing(UP, LEVEL, DOWN), "the second cost .* 2 times the first at the start, 0.5 times at the end"),
    ],
)
def test_refusals_say_what_would_fit(call, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        call()


def test_ten_times_the_work_has_the_larger_median():
    work = {"long": lambda: sum(range(100_000)), "short": lambda: sum(range(5000))}
    timings = compare_times(work, rounds=3)
    assert list(timings) == ["long", "short"]
    assert [timings[name].name for name in work] == ["long", "short"]
    assert timings["long"].median > 4 * timings["short"].median > 0
    assert timings["short"].calls > timings["long"].calls  # a sample of each fills as much time
    assert all(timing.spread >= 0 for timing in timings.values())


def made_up(seconds):
    """A clock by which a call takes as long as it says, and a record of what was called."""
    seen = []

    def clock(call, calls):
        for _ in range(calls):
            seen.append(call())
        return seconds[seen[-1]]

    return clock, seen


@pytest.mark.parametrize(("rounds", "took"), [({"rounds": 1}, 1), ({"rounds": 12}, 12), ({}, timing.LEAST_ROUNDS)])
def test_as_many_rounds_as_are_asked_for(monkeypatch, rounds, took):
    clock, seen = made_up({"A": 0.25, "B": 0.3})
    monkeypatch.setattr(timing, "cpu_seconds", clock)
    timings = compare_times({"A": lambda: "A", "B": lambda: "B"}, **rounds)
    assert [timing.seconds for timing in timings.values()] == [[0.25] * took, [0.3] * took]
    assert seen[:2] == ["A", "B"]  # to warm up
    assert len(seen) == 2 + 2 * took


@pytest.mark.parametrize(
    ("device", "own", "other"), [("cpu", "cpu", "gpu"), ("cuda", "gpu", "cpu"), ("cuda:1", "gpu", "cpu")]
)
@pytest.mark.parametrize("kind", [str, torch.device], ids=["name", "device"])
def test_a_device_is_timed_by_its_own_clock(monkeypatch, device, own, other, kind):
    clock, _ = made_up({"A": 0.5})
    monkeypatch.setattr(timing, f"{own}_seconds", clock)
    monkeypatch.setattr(timing, f"{other}_seconds", None)
    chosen = []  # with several GPUs: the one that is asked for, and not the one that is current
    monkeypatch.setattr(torch.cuda, "device", lambda which: chosen.append(str(which)) or contextlib.nullcontext())
    assert compare_times({"A": lambda: "A"}, device=kind(device), rounds=1)["A"].seconds == [0.5]
    assert set(chosen) == ({device} if own == "gpu" else set())


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told to keep freed memory")
def test_kept_memory_is_not_asked_for_again():
    resource = pytest.importorskip("resource")

    def pages():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.zeros(2**22) + 1  # twice 16 MiB
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    with memory_kept():
        least = min(pages() for _ in range(5))  # the first ones ask
    assert least < 100
    assert pages() > 1000


def test_a_fitted_crossing_is_not_moved_far_by_one_noisy_number():
    sizes = [64, 128, 256, 512, 1024]
    line, square = [256.0 * size for size in sizes], [float(size**2) for size in sizes]
    assert crossing(sizes, line, square, fit=True) == pytest.approx(256)
    assert crossing(sizes[:2], line[:2], square[:2], fit=True) == pytest.approx(256)  # outside of them
    square[2] *= 1.3  # as noise may be: neighbours alone go by it
    assert crossing(sizes, line, square) == pytest.approx(211.7, abs=0.1)
    assert 220 < crossing(sizes, line, square, fit=True) < 256
    with pytest.raises(ValueError, match="the second cost must grow faster than the first"):
        crossing(sizes, square, line, fit=True)
    with pytest.raises(TypeError, match="fit must be True or False, got 1"):
        crossing(sizes, line, square, fit=1)


@pytest.mark.parametrize(
    ("calls", "rounds", "error", "said"),
    [
        ({}, {}, ValueError, "calls must hold at least one function, got none"),
        ({"A": list}, {"rounds": 0}, ValueError, "rounds must be an integer of at least 1, got 0"),
        ({"A": list}, {"rounds": 2.0}, TypeError, r"rounds must be an integer, got 2\.0"),
        ({"A": list}, {"rounds": True}, TypeError, "rounds must be an integer, got True"),
    ],
)
def test_nothing_to_time_and_no_rounds_are_refused(calls, rounds, error, said):
    with pytest.raises(error, match=f"^{said}$"):
        compare_times(calls, **rounds)


def test_some_of_the_machines_memory_is_free():
    psutil = pytest.importorskip("psutil")
    free = machine.free_bytes(torch.device("cpu"))
    assert type(free) is int
    assert 0 < free <= psutil.virtual_memory().total


V1, V2 = ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"), ("memory.max", "memory.current")


@pytest.mark.parametrize(
    ("files", "limit", "used", "free"),
    [
        (V2, "1000\n", "400\n", 600),
        (V1, "1000\n", "400\n", 600),
        (V2, "1000\n", "1200\n", 0),
        (V2, "max\n", "400\n", 5000),
        (V1, "9223372036854771712\n", "400\n", 5000),  # none, in the old way of saying it
        (V2, "1000\n", None, 5000),
    ],
)
def test_a_container_leaves_less(monkeypatch, tmp_path, files, limit, used, free):
    psutil = pytest.importorskip("psutil")
    for name, text in zip(files, (limit, used), strict=True):
        if text is not None:
            path = tmp_path / "sys/fs/cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    monkeypatch.setattr(machine, "Path", lambda name: tmp_path / name.lstrip("/"))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": 5000}))
    assert machine.free_bytes(torch.device("cpu")) == free


def test_a_gpu_says_what_is_free(monkeypatch):
    gpu = torch.device("cuda", 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: {gpu: (7, 10)}[device])
    assert machine.free_bytes(gpu) == 7

"""Low precision: the error against float64 is at most twice that of plain PyTorch in the same dtype, gradients too."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attn_lib import attention

from .cases import F64, METHODS

B, H, Hkv, T, S, Dk, Dv = 2, 6, 3, 31, 67, 37, 41
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# "tiled" in pieces: a tile that holds everything would round as the reference does.
HOW = {method: {"method": method} | ({"block_sizes": (16, 32)} if method == "tiled" else {}) for method in METHODS}


def results(function, inputs: list[Tensor], cotangent: Tensor) -> dict[str, Tensor]:
    """Output and gradients, in float64."""
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    output = function(*inputs)
    names, gradients = ("query", "key", "value"), torch.autograd.grad(output, inputs, cotangent)
    found = {f"gradient of {name}": gradient for name, gradient in zip(names, gradients, strict=True)}
    return {name: tensor.detach().double() for name, tensor in ({"output": output} | found).items()}


def equation(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> Tensor:
    """softmax(Q K^T / sqrt(Dk)) V as one writes it in PyTorch, every step in the dtype of the inputs."""
    key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in (key, value))
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if is_causal:
        T, S = scores.shape[-2:]
        scores = scores.masked_fill(torch.ones(T, S, dtype=torch.bool).triu(S - T + 1), -torch.inf)
    return scores.softmax(dim=-1) @ value


def inputs(T: int, S: int, Dv: int, size: float, dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
    make = torch.Generator().manual_seed(0)
    shapes = ((B, H, T, Dk), (B, Hkv, S, Dk), (B, Hkv, S, Dv), (B, H, T, Dv))
    query, key, value, cotangent = (torch.randn(shape, generator=make, dtype=F64) for shape in shapes)
    return [(query * size).to(dtype), key.to(dtype), value.to(dtype)], cotangent.to(dtype)


def assert_at_most_twice_as_far_off(ours, theirs, given: list[Tensor], cotangent: Tensor, is_causal: bool) -> None:
    """By the root of the summed squares: over thousands of elements that is the same on every machine, a maximum is luck."""
    exact = results(lambda *each: equation(*each, is_causal), [tensor.double() for tensor in given], cotangent.double())
    mine, other = results(ours, given, cotangent), results(theirs, given, cotangent)
    for name, right in exact.items():
        error, allowed = float((mine[name] - right).norm()), 2 * float((other[name] - right).norm())
        assert error <= allowed, f"{name} is off by {error:.3g} in all, where {allowed:.3g} is allowed"
        assert allowed < float(right.norm()), f"{name}: nothing is left to compare with"


SIZES = pytest.mark.parametrize("size", [1.0, 100.0], ids=lambda size: f"scores of {size:.0f}")
ORDERS = pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])


@SIZES
@ORDERS
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_error_is_at_most_twice_that_of_pytorchs_own_kernel(dtype, method, is_causal, size):
    # As long as wide, where its causal order is ours, and one width for all, with which it takes its fast kernel.
    given, cotangent = inputs(S, S, Dk, size, dtype)
    assert_at_most_twice_as_far_off(
        lambda *each: attention(*each, is_causal=is_causal, **HOW[method]),
        lambda *each: scaled_dot_product_attention(*each, is_causal=is_causal, enable_gqa=True),
        given,
        cotangent,
        is_causal,
    )


# Not "fused" in float32: PyTorch's kernel keeps the log-sum-exp alone for its gradients, and where scores are large its
# rounding makes them many times worse than those of the equation. The test above holds "fused" to that kernel.
PAIRS = [(dtype, method) for dtype in DTYPES for method in METHODS if (dtype, method) != (torch.float32, "fused")]


@SIZES
@ORDERS
@pytest.mark.parametrize(("dtype", "method"), PAIRS, ids=str)
def test_error_is_at_most_twice_that_of_the_equation_in_plain_pytorch(dtype, method, is_causal, size):
    given, cotangent = inputs(T, S, Dv, size, dtype)
    assert_at_most_twice_as_far_off(
        lambda *each: attention(*each, is_causal=is_causal, **HOW[method]),
        lambda *each: equation(*each, is_causal),
        given,
        cotangent,
        is_causal,
    )

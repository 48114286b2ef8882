"""The packages that attn_lib is held against, and how near to them it has to come."""

import importlib
import os
from importlib import metadata

import pytest
import torch
from packaging.version import Version
from torch import Tensor


def oracle(name: str, at_least: str):
    """The package of that name. Without it the file that asks is skipped, or fails where CONFORMANCE=all."""
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        found = None
    if found is not None and Version(found) >= Version(at_least):
        return importlib.import_module(name)
    lacking = f"{name}>={at_least} is needed, {'and is missing' if found is None else f'not {found}'}"
    if os.environ.get("CONFORMANCE") == "all":
        pytest.fail(lacking, pytrace=False)
    pytest.skip(f"{lacking}: `make conformance` installs it and runs this too", allow_module_level=True)


def share(dtype: torch.dtype, largest_score: float = 1.0) -> float:
    """How far two right computations may lie apart, as a share of the largest number in them.

    A score of size M is rounded by M * eps, and the softmax turns an absolute error of a score into a relative one of a
    weight. 32 leaves room for sums of some twenty terms in any order, on both sides.
    """
    return 32 * torch.finfo(dtype).eps * (1 + largest_score)


def assert_near(ours: Tensor, theirs: Tensor, share: float, what: str = "output", size: float = 0.0) -> None:
    """No element differs by more than that share of the largest of theirs, or of ``size`` where that is larger."""
    assert ours.shape == theirs.shape, f"{what}: {list(ours.shape)} is not {list(theirs.shape)}"
    ours, theirs = ours.detach().double(), theirs.detach().double()
    finite = theirs[theirs.isfinite()].abs()
    bound = share * max(size, float(finite.max()) if len(finite) else 0.0)
    off = (ours - theirs).abs().masked_fill(ours == theirs, 0.0)  # an infinity less itself would be NaN
    assert bool((off <= bound).all()), f"{what} is off by {float(off.max()):.3g}, where {bound:.3g} is allowed"

"""A missing oracle is seen: a skip that names the command, a failure where all were asked for; and near is near."""

import pytest
import torch

from .oracles import assert_near, oracle


def test_a_missing_package_skips_and_says_which_command_runs_it(monkeypatch):
    monkeypatch.delenv("CONFORMANCE", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-package>=1 .* missing: `make conformance`"):
        oracle("no-such-package", "1")


def test_a_missing_package_fails_where_all_were_asked_for(monkeypatch):
    monkeypatch.setenv("CONFORMANCE", "all")
    with pytest.raises(pytest.fail.Exception, match="no-such-package>=1 is needed"):
        oracle("no-such-package", "1")


def test_an_old_package_counts_as_missing_and_a_right_one_comes(monkeypatch):
    monkeypatch.setenv("CONFORMANCE", "all")
    with pytest.raises(pytest.fail.Exception, match=f"pytest>=9999 is needed, not {pytest.__version__}"):
        oracle("pytest", "9999")
    assert oracle("pytest", "1") is pytest


@pytest.mark.parametrize(
    "ours",
    [[1.0, torch.nan], [1.0, -torch.inf], [1.0, 2.1], [[1.0, 2.0]]],
    ids=["nan", "inf", "far", "shape"],
)
def test_what_is_not_near_is_refused(ours):
    with pytest.raises(AssertionError, match="output"):
        assert_near(torch.tensor(ours), torch.tensor([1.0, 2.0]), 0.01)
    assert_near(torch.tensor([1.01, -torch.inf]), torch.tensor([1.0, -torch.inf]), 0.02)

"""A certificate recomputed for a backlog: what it proves is given, anything else is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import sortedf
from sortedf.errors import VerificationError
from sortedf.instances import new_certificate
from sortedf.lp.bounds import prices_bound
from sortedf.solvers import certified_bound, check_certificate


@pytest.fixture(scope="module")
def backlog() -> sortedf.Instance:
    return sortedf.Instance([3, 1, 4, 2], [2, 5, 1, 3], 9, release=[0, 2, 0, 1])


@pytest.fixture(scope="module")
def recorded(backlog: sortedf.Instance) -> dict[str, Any]:
    return new_certificate(backlog, prices_bound(backlog))


def test_what_it_proves(backlog: sortedf.Instance, recorded: dict[str, Any]) -> None:
    assert certified_bound(backlog, recorded, "it") == prices_bound(backlog).value
    assert check_certificate(backlog, recorded).ok
    assert not check_certificate(backlog, recorded, kv_tokens=10).ok


def test_what_it_does_not_prove(backlog: sortedf.Instance, recorded: dict[str, Any]) -> None:
    """A bound that is claimed too high, another backlog, another budget: told by its name."""
    forged = recorded | {"bound": str(Fraction(recorded["bound"]) + 1)}
    later = backlog.replace(release=[0, 2, 0, 2])
    for instance, document in (
        (backlog, forged),
        (later, recorded),
        (backlog.replace(kv_tokens=10), recorded),
    ):
        with pytest.raises(VerificationError) as caught:
            certified_bound(instance, document, "c.json")
        assert all(line.startswith("c.json: ") for line in str(caught.value).splitlines())

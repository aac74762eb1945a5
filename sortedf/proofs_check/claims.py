"""The guarantees of the papers as objects: a value, and the limit that the optimum sets it.

Every claim has the same form, value <= limit x optimum: that of a policy with the total latency of
its schedule and the ratio proved for it, that of a lower bound with its value and limit 1. Values,
limits and optima are integers or fractions, never floats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sortedf.errors import OptionError
from sortedf.lp.bounds import CLOSED_FORMS
from sortedf.lp.prices import price_bound
from sortedf.model import Instance
from sortedf.proofs_check.optimum import Known
from sortedf.solvers.front import verified_latency
from sortedf.solvers.registry import find_solver

SORTED_F, SVF = "arXiv 2508.06133", "arXiv 2606.22327"
DERIVED = "derived for this project"


@dataclass(frozen=True)
class Claim:
    """A guarantee that can be evaluated on an instance whose requests are all released at 0.

    Parameters
    ----------
    name
        Of the policy or bound, and of the files of violations.
    statement, source
        What is claimed, in a line, and where it is proved.
    value
        What is held against the optimum: a total latency (of a verified schedule) or a bound.
    limit
        Proved ratio on an instance, exact; ``None`` where the claim does not speak of it.
    refutable
        Whether a value above its limit would refute the claim. If not, the limit is a yardstick:
        the multiple of an unknown constant, or a ratio that no theorem promises.
    is_bound
        Whether it is a lower bound rather than a policy.
    """

    name: str
    statement: str
    source: str
    value: Callable[[Known], Fraction]
    limit: Callable[[Instance], Fraction | None]
    refutable: bool = True
    is_bound: bool = False


def svf_limit(instance: Instance) -> Fraction | None:
    """Ratio of SVF: 1 + 2 / (1 - alpha), alpha = max(s + o) / M; nothing at alpha = 1 [2]."""
    largest = largest_size(instance)
    if largest == instance.kv_tokens:
        return None
    return 1 + Fraction(2 * instance.kv_tokens, instance.kv_tokens - largest)


def largest_size(instance: Instance) -> int:
    """Return T, the largest s + o (tokens)."""
    return int((instance.prompt_tokens + instance.output_tokens).max())


def _policy(
    name: str,
    statement: str,
    source: str,
    limit: Callable[[Instance], Fraction | None],
    refutable: bool = True,
) -> Claim:
    solver = find_solver(name)

    def total_latency(known: Known) -> Fraction:
        schedule = solver.plan(known.instance, 0).schedule
        return Fraction(verified_latency(known.instance, schedule))

    return Claim(name, statement, source, total_latency, limit, refutable)


def _closed_form(name: str, source: str) -> Claim:
    return Claim(
        f"bound-{name}",
        f"{name} bound <= optimum",
        source,
        lambda known: CLOSED_FORMS[name](known.instance),
        lambda instance: Fraction(1),
        is_bound=True,
    )


POLICIES = (
    _policy("svf", "SVF <= 1 + 2 / (1 - alpha)", SVF, svf_limit),
    _policy(
        "svf-1bit",
        "1-bit SVF = O(T)",
        SVF,
        lambda instance: Fraction(largest_size(instance)),
        refutable=False,
    ),
    _policy("exact-dp", "Sorted-F <= 48", SORTED_F, lambda instance: Fraction(48)),
    *(
        _policy(
            name,
            f"{name}, beside 48",
            "no theorem: batches need not be of least F",
            lambda instance: Fraction(48),
            refutable=False,
        )
        for name in ("local-swap", "quantile-greedy")
    ),
)
BOUNDS = (
    _closed_form("output", SVF),
    _closed_form("volume", SVF),
    _closed_form("mean-busy-time", DERIVED),
    Claim(
        "bound-prices",
        "price bound <= optimum",
        DERIVED,
        lambda known: price_bound(known.instance, known.prices),
        lambda instance: Fraction(1),
        is_bound=True,
    ),
)
CLAIMS = {claim.name: claim for claim in (*POLICIES, *BOUNDS)}
"""Every claim by name: those of policies, then the bounds."""


def find_claims(policy: str) -> list[Claim]:
    """Look up the claim of a policy; ``all`` are all of them, the bounds too.

    Raises
    ------
    OptionError
        If nothing is claimed of a policy of this name.
    """
    if policy == "all":
        return list(CLAIMS.values())
    names = [claim.name for claim in POLICIES]
    if policy not in names:
        raise OptionError(f"there is no claim of {policy!r}; choose from {', '.join(names)}, all")
    return [CLAIMS[policy]]

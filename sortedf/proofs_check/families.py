"""Families of backlogs on which a policy is far from the best, by the KV budget M.

Two were given to this project to be checked, ``large-first`` and ``long-first``. The others were
found by looking at what the search of :mod:`sortedf.proofs_check.finder` brought, and derived from
there. Written ``k (s, o)``: k requests of s prompt and o output tokens, in input order, which is
what ties go by. Each function says what the policy does, what a good schedule does instead, and
what follows for large M; ``proven`` of a :class:`Family` is the same for every M, as a fraction.

Admission is strict: a request that does not fit holds up all that come after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from sortedf.errors import OptionError
from sortedf.model import Instance

GIVEN = "given to this project, derivation its own"
DERIVED = "derived for this project from what the search found"
FOUND = "found by search, scaled; no ratio is derived"


@dataclass(frozen=True)
class Family:
    """A backlog for every budget.

    Parameters
    ----------
    name, source
        What it is called, and where it comes from.
    policies
        Policies that it is bad for, by the names of the registry of solvers.
    backlog
        The instance for a budget M, a whole number of at least ``least``.
    least
        The smallest budget for which there is one.
    proven
        A ratio that the policies reach at least at a budget, by hand; ``None`` where there is none.
    exponent
        What the ratio grows with, as a power of M, by the derivation.
    """

    name: str
    source: str
    policies: tuple[str, ...]
    backlog: Callable[[int], Instance]
    least: int
    proven: Callable[[int], Fraction] | None
    exponent: float

    def __call__(self, kv_tokens: int) -> Instance:
        """Build the backlog for a budget; an :class:`OptionError` below the smallest one."""
        if kv_tokens < self.least:
            raise OptionError(
                f"kv_tokens is {kv_tokens}; the family {self.name} begins at {self.least}"
            )
        return self.backlog(kv_tokens)


Kinds = list[tuple[int, int, int]]
"""Requests alike: how many, s, o."""


def instance_of(kinds: Kinds, kv_tokens: int) -> Instance:
    """Put requests in a row, kind after kind."""
    prompt = [s for count, s, _ in kinds for _ in range(count)]
    output = [o for count, _, o in kinds for _ in range(count)]
    return Instance(prompt, output, kv_tokens)


def in_groups(n: int, group: int, step: int) -> int:
    """Sum the completions of n requests that run ``group`` at a time, ``step`` steps each group."""
    full, rest = divmod(n, group)
    return step * (group * (full * (full + 1) // 2) + rest * (full + 1))


def large_first(kv_tokens: int) -> Instance:
    """K = floor(sqrt(6 M)) of (M - 1, 1), then M of (1, 2): bad for MC-SF and first come.

    A large one fills the budget, so that the policy runs K of them one by one, and M small ones
    wait for K steps: total latency M K at least. Instead, small ones first: three groups of M / 3,
    two steps each, 4 M in all, then the large ones, K (K + 1) / 2 = 3 M and 6 K more. So the ratio
    is at least sqrt(6 M) M / (7 M + O(sqrt M)), sqrt(6) / 7 = 0.35 times sqrt(M); better packing
    of the small ones makes that more. K is best where both halves cost alike.
    """
    return instance_of([(isqrt(6 * kv_tokens), kv_tokens - 1, 1), (kv_tokens, 1, 2)], kv_tokens)


def _large_first(M: int) -> Fraction:
    K, group = isqrt(6 * M), M // 3
    large = K * (K + 1) // 2
    until = 2 * -(-M // group)
    return Fraction(large + M * (K + 2), in_groups(M, group, 2) + large + K * until)


def large_first_tied(kv_tokens: int) -> Instance:
    """K = floor(sqrt(2 M)) of (M - 1, 1), then M of (1, 1): the same, where ties are lost.

    All outputs are 1 and MC-SF goes by input order. Small ones hold two tokens, M / 2 run a step:
    1.5 M in all, then the large ones, M: ratio at least sqrt(2 M) M / (2.5 M + O(sqrt M)), 0.57
    times sqrt(M).
    """
    return instance_of([(isqrt(2 * kv_tokens), kv_tokens - 1, 1), (kv_tokens, 1, 1)], kv_tokens)


def _large_first_tied(M: int) -> Fraction:
    K, group = isqrt(2 * M), M // 2
    large = K * (K + 1) // 2
    small = in_groups(M, group, 1)
    return Fraction(large + M * K + small, small + large + K * -(-M // group))


def blocked_queue(kv_tokens: int) -> Instance:
    """One of (1, M - 1), one of (M - 1, 1), then M of (1, 1): bad for first come.

    The first is long and small, the second fills the budget and waits for it at the head of the
    line, and M requests of one step wait behind both: M (M + 1) at least. Instead the last come
    first, M / 2 a step, 1.5 M in all, then the large one, then the long one, M + 6 together. The
    ratio is at least M^2 / (2.5 M + O(1)), near 0.4 M.
    """
    M = kv_tokens
    return instance_of([(1, 1, M - 1), (1, M - 1, 1), (M, 1, 1)], M)


def _blocked_queue(M: int) -> Fraction:
    small = in_groups(M, M // 2, 1)
    steps = -(-M // (M // 2))
    return Fraction(M - 1 + M + M * M + small, small + (steps + 1) + (steps + M))


def long_first(kv_tokens: int) -> Instance:
    """Put A of (1, L) before B of (L + 1, 1), with L = floor(sqrt(M)): bad for total size.

    A = floor(4 M / (L + 1)) and B = floor(floor(4 sqrt(L / 2)) M / (L + 2)). By size all long ones
    come before all large ones, in four groups of M / (L + 1) that take L steps each: the large ones
    wait for 3 L steps, until the last group leaves room in its first steps. Instead the large ones
    first, M / (L + 2) a step, 4 sqrt(L / 2) steps: with M / L the unit, 12 L sqrt(L / 2) + 10 L
    against 4 L for the large ones and 10 L + 16 sqrt(L / 2) for the long ones. So the ratio is
    about 12 sqrt(L / 2) / 14 for large M, 0.6 M^(1/4); the groups overlap a little where M is no
    multiple of L + 1, so that this is no bound.
    """
    M = kv_tokens
    L = isqrt(M)
    steps = isqrt(8 * L)  # floor(4 sqrt(L / 2))
    return instance_of([(4 * M // (L + 1), 1, L), (steps * M // (L + 2), L + 1, 1)], M)


def long_first_whole(kv_tokens: int) -> Instance:
    """Put 4 of (1, M - 2) before floor(4 sqrt(M)) of (M - 1, 1): the same with L = M - 2.

    A long one alone takes M - 2 steps, since two cannot end together, and the large ones, one a
    step, wait for four of them: 16 M sqrt(M) at least. Instead the large ones first, 8 M, then the
    long ones one by one, 10 M + O(sqrt M): ratio at least 16 / 18 sqrt(M) - O(1), with 4 sqrt(M)
    requests. ``long_first`` has exponent 1/4 only because its L is so small.
    """
    M = kv_tokens
    return instance_of([(4, 1, M - 2), (isqrt(16 * M), M - 1, 1)], M)


def _long_first_whole(M: int) -> Fraction:
    large = isqrt(16 * M)
    alone = large * (large + 1) // 2 + in_groups(4, 1, M - 2)
    return Fraction(alone + large * 4 * (M - 2), alone + 4 * large)


def blocked_volumes(kv_tokens: int) -> Instance:
    """4 o pairs of (x, o) and (V - 1, 1), all of one volume V near M: bad for volume order.

    V = x o + o (o + 1) / 2 is the volume of both kinds. SVF takes them in input order, long, large,
    long, large. A large one does not fit beside a long one, since V + x + 1 > M: each pair takes
    o + 1 steps, although both together hold 2 V, two steps of the budget. Of all (x, o) with
    M - x <= V <= M the one of largest o is taken, about sqrt(2 M): ratio near (o + 1) / 2 = 0.7
    sqrt(M) for many pairs, eight ninths of it for 4 o. SVF's guarantee of 1 + 2 / (1 - alpha) [2]
    says 1 + 2 M / (M - V) here, at least 1 + 2 M / x: none at all for alpha = 1.
    """
    x, o = _blocking(kv_tokens)
    return blocked_pairs(x, o, 4 * o, kv_tokens)


def blocked_pairs(x: int, o: int, pairs: int, kv_tokens: int) -> Instance:
    """Alternate (x, o) and (V - 1, 1), both of volume V = x o + o (o + 1) / 2, so many pairs.

    With M = V + x and x much larger than o: alpha = V / M = 1 - x / M, so that SVF's guarantee is
    1 + 2 M / x = 1 + (o + 1) (2 + o / x), about 2 o + 3, while the ratio for many pairs is near
    (o + 1) / 2 (:func:`blocked_volumes`). So no bound of this form is below a quarter of it.
    """
    volume = x * o + o * (o + 1) // 2
    return instance_of([(1, x, o), (1, volume - 1, 1)] * pairs, kv_tokens)


def _blocking(M: int) -> tuple[int, int]:
    """Find x and the largest o so that requests (x, o) have a volume of M - x to M."""
    for o in range(isqrt(2 * M), 0, -1):
        x, rest = divmod(M - o * (o + 1) // 2, o)
        if x >= 1 and rest <= x:
            return x, o
    raise AssertionError("o = 1 has no rest")


def _blocked_volumes(M: int) -> Fraction:
    x, o = _blocking(M)
    pairs = 4 * o
    policy = pairs * (pairs - 1) * (o + 1) + pairs * (2 * o + 1)
    long = in_groups(pairs, M // (x + o), o)
    return Fraction(policy, pairs * (pairs + 1) // 2 + pairs * pairs + long)


def short_and_long(kv_tokens: int) -> Instance:
    """Put 103 of (s, o) before 46 of (M + 1 - s - 3 o, 3 o): what was found to hurt Sorted-F most.

    s = ceil(89 M / 256) and o = floor(52 M / 256). Two short ones are no batch: 2 (s + o) > M;
    one alone has F = o. With a long one beside it F = (o + 3 o) / 4, the same, so that batches of
    one short and one long request are taken in turn. At its last step the long one leaves s - 1
    tokens, none for the next short one: each batch lasts 3 o steps instead of o. The ratio does not
    grow with M; Sorted-F's is at most 48 [1].
    """
    M = kv_tokens
    s, o = -(-89 * M // 256), 52 * M // 256
    return instance_of([(103, s, o), (46, M + 1 - s - 3 * o, 3 * o)], M)


SORTED_F = ("exact-dp", "local-swap", "quantile-greedy")

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("large-first", GIVEN, ("mcsf", "fcfs"), large_first, 3, _large_first, 0.5),
        Family(
            "large-first-tied",
            DERIVED,
            ("mcsf", "fcfs"),
            large_first_tied,
            2,
            _large_first_tied,
            0.5,
        ),
        Family("blocked-queue", DERIVED, ("fcfs",), blocked_queue, 2, _blocked_queue, 1.0),
        Family("long-first", GIVEN, ("size",), long_first, 4, None, 0.25),
        Family("long-first-whole", DERIVED, ("size",), long_first_whole, 4, _long_first_whole, 0.5),
        Family("blocked-volumes", DERIVED, ("svf",), blocked_volumes, 5, _blocked_volumes, 0.5),
        Family("short-and-long", FOUND, SORTED_F, short_and_long, 64, None, 0.0),
    )
}
"""Every family by name, those of a policy in the order in which they were found."""


def families_of(policy: str) -> list[Family]:
    """List the families that are bad for a policy.

    Raises
    ------
    OptionError
        If there is none, with the policies for which there are some.
    """
    found = [family for family in FAMILIES.values() if policy in family.policies]
    if not found:
        known = dict.fromkeys(name for family in FAMILIES.values() for name in family.policies)
        raise OptionError(f"no family is known for {policy!r}; choose from {', '.join(known)}")
    return found

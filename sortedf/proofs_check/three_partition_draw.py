"""3-Partition problems drawn at random: with a partition, without one, and nearly with one."""

from __future__ import annotations

import random

from sortedf.errors import OptionError, whole_number
from sortedf.proofs_check.three_partition import ThreePartition
from sortedf.proofs_check.three_partition_deciders import by_exact_cover

TRIES = 500
"""Draws after which a kind of problem is said not to be had."""

MODULUS = 4
"""More than the three numbers of a triple, and prime to 3; see :func:`by_residues`."""


def draw_yes(m: int, target: int, seed: int) -> ThreePartition:
    """Draw a problem of m triples that has a partition, planted and shuffled; O(m).

    Raises
    ------
    OptionError
        When m is no whole number above 0, or no triple sums to the target (up to 5, and 8).
    """
    return planted(m, target, random.Random(f"yes {m} {target} {seed}"))


def draw_no(m: int, target: int, seed: int) -> ThreePartition:
    """Draw a problem of m triples that has no partition.

    By construction (:func:`by_residues`) or, every other time and where that fails, one that was
    planted and spoilt (:func:`moved`) and is found to have none by an exact cover.

    Raises
    ------
    OptionError
        When m is below 2, or no such problem was found: for small targets there may be none.
    """
    whole_number("m", m, 2)
    rng = random.Random(f"no {m} {target} {seed}")
    problem = by_residues(m, target, rng) if rng.random() < 0.5 else None
    for _ in range(TRIES):
        if problem is not None:
            return problem
        drawn = moved(m, target, rng)
        if by_exact_cover(drawn) is None:
            problem = drawn
    raise OptionError(f"no problem without a partition found for m = {m}, B = {target}; raise B")


def planted(m: int, target: int, rng: random.Random) -> ThreePartition:
    """Draw m triples that sum to the target, shuffled: a partition is there by construction."""
    whole_number("m", m, 1)
    whole_number("target", target, 3)
    least, most = _range(target)
    # Of a first number the rest must still make two numbers.
    first = max(least, target - 2 * most), min(most, target - 2 * least)
    if first[0] > first[1]:
        raise OptionError(f"no triple sums to {target}; take another target, 9 or more")
    numbers = []
    for _ in range(m):
        one = rng.randint(*first)
        two = rng.randint(max(least, target - one - most), min(most, target - one - least))
        numbers += [one, two, target - one - two]
    rng.shuffle(numbers)
    return ThreePartition(numbers, target)


def moved(m: int, target: int, rng: random.Random) -> ThreePartition:
    """Plant a partition, then move a few units from one number to another, up to m times.

    There may be a partition still, or another one: nobody knows before it is decided.
    """
    least, most = _range(target)
    numbers = list(planted(m, target, rng).numbers)
    for _ in range(rng.randint(1, m)):
        giver, taker = rng.sample(range(3 * m), 2)
        units = min(rng.randint(1, 3), numbers[giver] - least, most - numbers[taker])
        numbers[giver] -= units
        numbers[taker] += units
    return ThreePartition(numbers, target)


def by_residues(m: int, target: int, rng: random.Random) -> ThreePartition | None:
    """Draw a problem that has no partition by construction; ``None`` for want of room.

    Let 3r = B modulo 4. Four numbers are r + 1 modulo 4, the others r, so that the sum is m B
    modulo 4. A triple with one to three of the four sums to B + 1, B + 2 or B + 3 modulo 4, never
    to B: these numbers are in no triple at all. Derived for this project.
    """
    least, most = _range(target)
    r = 3 * target % MODULUS  # 3 is its own inverse modulo 4
    for _ in range(TRIES if 3 * m > MODULUS else 0):
        residues = [(r + 1) % MODULUS] * MODULUS + [r] * (3 * m - MODULUS)
        choices = [range(least + (x - least) % MODULUS, most + 1, MODULUS) for x in residues]
        if not all(choices):
            return None
        numbers = [rng.choice(choice) for choice in choices[:-1]]
        last = m * target - sum(numbers)
        if last in choices[-1]:
            numbers.append(last)
            rng.shuffle(numbers)
            return ThreePartition(numbers, target)
    return None


def _range(target: int) -> tuple[int, int]:
    """Least and most that a number may be."""
    return target // 4 + 1, (target - 1) // 2

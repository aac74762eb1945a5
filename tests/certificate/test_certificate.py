"""The checker of certificates: exact, sound, and unforgiving."""

from __future__ import annotations

import ast
import copy
import random
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_certificate import document_of, naive_bound, random_proof

from sortedf import Instance, certificate
from sortedf.certificate import Report, check
from sortedf.lp import Prices, price_bound


def ask(instance: Instance, document: Any, **options: Any) -> Report:
    """Check a certificate against an instance."""
    s, o, a = instance.prompt_tokens, instance.output_tokens, instance.release
    return check(s.tolist(), o.tolist(), a.tolist(), document, ids=instance.ids, **options)


def least_latency(instance: Instance) -> int:
    """Least total latency of all schedules, request by request, step by step."""
    requests = list(instance)
    horizon = int(instance.release.max() + instance.output_tokens.sum())
    best = len(requests) * horizon

    def place(i: int, used: tuple[int, ...], latency: int) -> None:
        nonlocal best
        if latency + sum(r.output_tokens for r in requests[i:]) >= best:
            return
        if i == len(requests):
            best = latency
            return
        _, s, o, a = requests[i]
        for p in range(a, horizon - o + 1):
            now = list(used)
            for k in range(1, o + 1):
                now[p + k] += s + k
            if max(now) <= instance.kv_tokens:
                place(i + 1, tuple(now), latency + p + o - a)

    place(0, (0,) * (horizon + 1), 0)
    return best


@st.composite
def instances(draw: st.DrawFn, most: int = 4, longest: int = 3) -> Instance:
    """Draw a few small requests, often alike, on a budget that is often tight."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(1, 5), st.integers(1, longest), st.sampled_from([0, 0, 0, 1, 4])),
            min_size=1,
            max_size=most,
        )
    )
    s, o, a = (list(column) for column in zip(*rows, strict=True))
    tightest = max(x + y for x, y, _ in rows)
    return Instance(s, o, tightest + draw(st.integers(0, 6)), release=a)


@settings(max_examples=400)
@given(instances(), st.randoms(use_true_random=False), st.integers(0, 14))
def test_no_certificate_is_above_the_optimum(
    instance: Instance, rng: random.Random, horizon: int
) -> None:
    """Whatever prices and tree, horizon too short included: no schedule is below the bound."""
    document = document_of(instance, random_proof(rng, instance, horizon))
    report = ask(instance, document)
    assert report.ok, report
    assert report.bound is not None
    assert report.bound <= least_latency(instance)


@settings(max_examples=600)
@given(instances(most=5, longest=12), st.randoms(use_true_random=False), st.integers(0, 60))
def test_bound_is_that_of_the_naive_twin(
    instance: Instance, rng: random.Random, horizon: int
) -> None:
    """Cell by cell or step by step, the fraction is the same, for prices and trees."""
    document = document_of(instance, random_proof(rng, instance, horizon), Fraction(0))
    requests = [(s, o, a) for _, s, o, a in instance]
    assert ask(instance, document).bound == naive_bound(requests, document)


@settings(max_examples=300)
@given(instances(most=6, longest=30), st.randoms(use_true_random=False), st.integers(0, 120))
def test_bound_is_that_of_the_kernel(instance: Instance, rng: random.Random, horizon: int) -> None:
    """The compiled bound of prices and the checker find the same fraction."""
    proof = random_proof(rng, instance, horizon)
    if "prices" not in proof or proof["denominator"] > 2**40:
        proof = {"denominator": 1000, "prices": [[1, 9, 70, -7], [10, 12, 3], [20, 44, 0, 2]]}
    rows = [[*piece, 0][:4] for piece in proof["prices"]]
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    prices = Prices(*columns, denominator=proof["denominator"])  # type: ignore[misc]
    document = document_of(instance, prices.to_dict(), price_bound(instance, prices))
    assert ask(instance, document).ok


def tree_document() -> tuple[Instance, dict[str, Any]]:
    """Three requests, a tree of three leaves and two price lists."""
    instance = Instance([2, 3, 1], [3, 2, 4], 7, release=[0, 1, 0], ids=["a", "b,", "c"])
    proof = {
        "denominator": 12,
        "price_lists": [[[1, 4, 9, -2], [6, 7, 1]], [[2, 2, 5]]],
        "tree": [[0, 2], 0, [2, 5], 1, 0],
    }
    return instance, document_of(instance, proof)


def plain_document() -> tuple[Instance, dict[str, Any]]:
    """Four requests, of which one is larger than the budget in blocks of two."""
    backlog = Instance([2, 8, 3, 1], [3, 2, 2, 4], 9)
    instance = backlog.select([0, 2, 3])
    proof = {"denominator": 6, "prices": [[1, 3, 4, -1], [4, 8, 1]]}
    document = document_of(instance, proof, Fraction(0), block_size=2)
    value = naive_bound([(s, o, a) for _, s, o, a in instance], document)
    return backlog, document | {"skipped": [1], "bound": f"{value.numerator}/{value.denominator}"}


def tampered(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each document that differs in one place: a number, a key, an item, their order."""

    def places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
        if path:
            yield path, value
        if isinstance(value, dict | list):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                yield from places(item, (*path, key))

    for path, value in places(document, ()):
        changes: list[Any] = []
        if isinstance(value, int):
            changes = [value + 1, value - 1, value + 12, -value, 0, 400, float(value), str(value)]
            changes += [None, [value], value > 0]
        elif isinstance(value, str):
            changes = [value[1:], value + "0", "1" + value, value.replace("1", "2"), 3, None, ""]
        elif isinstance(value, list):
            changes = [value[1:], value[:-1], value[::-1], [*value, *value[-1:]], [], None, 5]
        for change in changes:
            if change != value or type(change) is not type(value):
                other = copy.deepcopy(document)
                target: Any = other
                for key in path[:-1]:
                    target = target[key]
                target[path[-1]] = change
                yield f"{path}: {value} -> {change}", other
    for key in document:
        yield f"without {key}", {k: v for k, v in document.items() if k != key}
    yield "a key more", document | {"slope": 0}


@pytest.mark.parametrize("make", [tree_document, plain_document])
def test_whatever_is_changed_in_a_certificate_is_found(make: Any) -> None:
    """Every single change is rejected, or it still proves the bound that it records.

    The naive twin says which: it takes what has the right form, and has to find that bound.
    """
    instance, document = make()
    assert ask(instance, document).ok
    requests = [(s, o, a) for _, s, o, a in instance]
    count, harmless = 0, []
    for what, other in tampered(document):
        count += 1
        report = ask(instance, other)
        if report.ok:
            harmless.append(what)
            assert naive_bound(requests, other) == Fraction(other["bound"]), what
            assert other["instance_sha256"] == document["instance_sha256"], what
        else:
            assert report.violations, what
            assert all("\n" not in str(v) and len(str(v)) < 250 for v in report.violations)
    assert count > 150
    # Prices and splits of leaves that are not the least one, and tokens short of a block.
    assert len(harmless) < 0.1 * count, harmless


@pytest.mark.parametrize("make", [tree_document, plain_document])
def test_whatever_is_changed_in_the_backlog_is_found(make: Any) -> None:
    """Another length, release, name or order of the requests is another backlog."""
    instance, document = make()
    s, o, a = (
        column.tolist()
        for column in (instance.prompt_tokens, instance.output_tokens, instance.release)
    )
    ids = list(instance.ids)
    # Those that are left out are in no plan, and in no hash.
    planned = [i for i in range(len(ids)) if i not in document.get("skipped", [])]
    assert check(s, o, a, document, ids=ids).ok
    for column in (s, o, a):
        for i in planned:
            for change in (1, -1, 50):
                column[i] += change
                assert not check(s, o, a, document, ids=ids).ok
                column[i] -= change
    for i in planned:
        assert not check(s, o, a, document, ids=[*ids[:i], "z", *ids[i + 1 :]]).ok
        less = [j for j in range(len(ids)) if j != i]
        fewer = [[column[j] for j in less] for column in (s, o, a, ids)]
        assert not check(fewer[0], fewer[1], fewer[2], document, ids=fewer[3]).ok
    assert not check(s[::-1], o[::-1], a[::-1], document, ids=ids[::-1]).ok


def test_the_budget_has_to_be_the_one_asked_for() -> None:
    """A certificate for another budget is refused where the budget is given."""
    instance, document = tree_document()
    assert ask(instance, document, kv_tokens=7).ok
    report = ask(instance, document, kv_tokens=8)
    assert [str(v) for v in report.violations] == [
        "the certificate is for a KV budget of 7 tokens, not 8"
    ]
    assert report.bound is not None


def test_huge_numbers_are_exact_and_quick() -> None:
    """Steps, prices and lengths of hundreds of digits give the exact bound at once."""
    big = 10**300
    instance = Instance([1], [1], 2)  # only for the form
    document = document_of(
        instance,
        {"denominator": big, "prices": [[1, big, big, 0], [2 * big, 3 * big, 5]]},
        Fraction(),
    )
    # The request of `big` outputs starts best at big - 1: it pays for its first token alone, 2.
    report = check([1], [big], None, document, ids=["0"])
    assert report.bound == 2 * big + 1 - 2 * (big + Fraction((big + 1) * 5, big))
    assert report.horizon == 3 * big


def test_it_stands_on_the_standard_library_alone() -> None:
    """One file, copied anywhere, is enough: it imports nothing but the standard library."""
    tree = ast.parse(Path(certificate.__file__).read_text(encoding="utf-8"))
    modules = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    modules |= {
        (node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    assert modules <= sys.stdlib_module_names


def test_sequences_that_do_not_belong_together() -> None:
    """Columns of different lengths are a mistake of the caller."""
    _, document = tree_document()
    with pytest.raises(ValueError, match="zip"):
        check([1, 1], [1], None, document)
    with pytest.raises(ValueError, match="zip"):
        check([1], [1], [0], document, ids=["a", "b"])

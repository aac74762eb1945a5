"""The verifier against its token-by-token twin, on thousands of small instances."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from twin import Fact, inspect

from sortedf.verify import Kind, Report, verify

small = st.integers(1, 9)
odd: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 1.0, "1", -1, 0, 2**62, -(2**62), 10**40, float("nan"), []]
)


class Plan(NamedTuple):
    """What ``verify`` takes."""

    prompt_tokens: list[Any]
    output_tokens: list[Any]
    release: list[Any] | None
    kv_tokens: Any
    starts: list[Any]
    requests: list[Any] | None


@st.composite
def plans(draw: st.DrawFn, most: int = 7) -> Plan:
    """Draw a plan of each request once, none before its release; often tied, often over budget."""
    n = draw(st.integers(0, most))
    columns = st.lists(small, min_size=n, max_size=n)
    release = draw(st.none() | st.lists(st.integers(0, 6), min_size=n, max_size=n))
    requests = draw(st.permutations(range(n)))
    delays = draw(st.lists(st.integers(0, 12), min_size=n, max_size=n))
    starts = [
        delay + (release[i] if release else 0) for delay, i in zip(delays, requests, strict=True)
    ]
    return Plan(draw(columns), draw(columns), release, draw(st.integers(1, 60)), starts, requests)


@st.composite
def spoiled_plans(draw: st.DrawFn) -> Plan:
    """Draw a plan, lose, double or move some entries and replace some values by anything."""
    plan = draw(plans(most=4))
    n = len(plan.starts)
    requests = list(plan.requests or [])
    starts = list(plan.starts)
    for _ in range(draw(st.integers(0, 3))):
        requests.append(draw(st.integers(-1, n + 1) | odd))
        starts.append(draw(st.integers(-4, 12) | odd))
    for _ in range(draw(st.integers(0, 2))):
        if requests:
            position = draw(st.integers(0, len(requests) - 1))
            del requests[position], starts[position]
    columns = [list(plan.prompt_tokens), list(plan.output_tokens), list(plan.release or [0] * n)]
    columns += [starts, requests]
    for column in columns:
        if column and draw(st.integers(0, 5)) == 0:
            column[draw(st.integers(0, len(column) - 1))] = draw(odd)
    s, o, a, starts, requests = columns
    budget = draw(st.just(plan.kv_tokens) | odd)
    return Plan(s, o, a, budget, starts, draw(st.sampled_from([requests, None])))


def compare(plan: Plan, total_latency: Any = None) -> Report:
    """Ask both; every violation, in order and with its figures, and the totals have to agree."""
    *arguments, requests = plan
    options = {"requests": requests, "total_latency": total_latency}
    report = verify(*arguments, **options)
    facts: list[Fact] = [(v.kind.value, *v[1:5]) for v in report.violations]
    totals = (report.total_latency, report.makespan, report.peak)
    assert (facts, *totals) == inspect(*arguments, **options)
    assert report.total == len(facts)
    return report


@settings(max_examples=2000)
@given(plans())
def test_whole_plans(plan: Plan) -> None:
    """On plans that place every request once, both find the same runs over the budget, no more."""
    report = compare(plan)
    assert {v.kind for v in report.violations} <= {Kind.BUDGET_EXCEEDED}
    assert report.ok == (report.peak <= plan.kv_tokens)


@settings(max_examples=2000)
@given(spoiled_plans(), st.none() | st.integers(0, 60) | odd)
def test_spoiled_plans(plan: Plan, total_latency: Any) -> None:
    """Whatever is wrong with a plan, both name the same violations, and nothing is raised."""
    report = compare(plan, total_latency)
    for violation in report.violations:
        assert "\n" not in str(violation)
        assert len(str(violation)) < 200


@settings(max_examples=300)
@given(plans())
def test_budget_of_the_peak(plan: Plan) -> None:
    """Exactly the peak is enough of a budget; one token less is exceeded, up to the peak itself."""
    peak = compare(plan).peak
    if peak > 1:
        assert compare(plan._replace(kv_tokens=peak)).ok
        report = compare(plan._replace(kv_tokens=peak - 1))
        assert {v.kind for v in report.violations} == {Kind.BUDGET_EXCEEDED}


@settings(max_examples=300)
@given(plans(), st.integers(-2, 2))
def test_recorded_objective(plan: Plan, error: int) -> None:
    """The recorded objective is wrong if and only if it is off."""
    latency = compare(plan).total_latency
    assert latency is not None
    kinds = Counter(v.kind for v in compare(plan, latency + error).violations)
    assert kinds[Kind.WRONG_OBJECTIVE] == bool(error)


@settings(max_examples=300)
@given(spoiled_plans(), st.integers(0, 5))
def test_capped_report(plan: Plan, most: int) -> None:
    """A capped report holds the first violations of the full one, and the same count and totals."""
    *arguments, requests = plan
    full = verify(*arguments, requests=requests)
    capped = verify(*arguments, requests=requests, max_violations=most)
    assert capped == full._replace(violations=full.violations[:most])

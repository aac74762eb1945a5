"""What was expected of the policies, each held against what bench/policies.py has found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from policy_entries import KINDS, LOAD, first_come
from policy_results import Results, markdown

PROMPTS = ("azure", "mix")  # where prompts fill the cache
SRPTS = ("srpt", "srpt, free swap", "srpt, waiting evicts nobody", "srpt-repaired")
SWAPPED = tuple(f"uniboost-{step}, free swap" for step in ("dist", "space", "guard"))
LEARNT = tuple(f"uniboost, from gamma {gamma}" for gamma in ("0.01", "1", "10"))
MEAN, P95, P99, FIRST = "mean_ttlt", "p95_ttlt", "p99_ttlt", "p99_ttft"


@dataclass(frozen=True)
class Expected:
    """That a ratio of two policies' means over the seeds is within bounds on some workloads.

    Of several policies that of the most over that of the least; the figure itself where nothing is
    held against it.
    """

    text: str
    ours: str | tuple[str, ...]
    theirs: str | tuple[str, ...] | None
    low: float = 0.0
    high: float = float("inf")
    figure: str = P99
    kinds: tuple[str, ...] = KINDS
    load: str = LOAD


WATERMARKED = first_come(3)
EXPECTED = (
    # UniBoost against SRPT with perfect lengths.
    Expected("UniBoost's P99 is far below SRPT's", "uniboost", "srpt", 0, 0.7, kinds=PROMPTS),
    Expected("so is first come's, with a watermark", WATERMARKED, "uniboost", 0, 1.05),
    Expected(
        "SRPT recomputes 0.5 to 1.3 tokens for every useful one",
        "srpt",
        None,
        0.5,
        1.3,
        "recomputed_share",
        ("azure",),
    ),
    Expected("what else SRPT may do moves its P99 more than twofold", SRPTS, SRPTS, 2),
    Expected(
        "repaired SRPT: P99 at most a fifth", "srpt-repaired", "srpt", 0, 0.2, kinds=("azure",)
    ),
    Expected("repaired SRPT: P99 as first come's", "srpt-repaired", WATERMARKED, 0, 1.1),
    # The steps of UniBoost.
    Expected(
        "boost order without preemption for rank: P99 within 1 % of every later step's",
        "uniboost-dist",
        ("uniboost-space", "uniboost-guard", "uniboost"),
        0,
        1.01,
    ),
    Expected(
        "one space without hysteresis collapses",
        "uniboost-space, hysteresis 0",
        "uniboost-space",
        2,
        figure=MEAN,
    ),
    Expected(
        "0.1 s of hysteresis does not cure it, 10 s does",
        "uniboost-space, hysteresis 0.1 s",
        "uniboost-space",
        2,
        figure=MEAN,
    ),
    Expected(
        "the guard collapses with k = 64 on long prompts",
        "uniboost-guard, k 64",
        "uniboost-guard",
        2,
        figure=MEAN,
        kinds=PROMPTS,
    ),
    Expected(
        "with k = 256 it still gains from hysteresis",
        "uniboost-guard, hysteresis 0",
        "uniboost-guard",
        1.02,
        figure=MEAN,
        kinds=PROMPTS,
    ),
    Expected("with free swap all steps are equal (5 %)", SWAPPED, SWAPPED, 0, 1.05),
    Expected(
        "the guard's mean is 3-8 % below two queues' at best, 37 % above at worst",
        "uniboost-guard",
        "uniboost-dist",
        0.92,
        1.37,
        MEAN,
    ),
    Expected(
        "without the floor of the prefill, the boost of arrivals costs the tail",
        "uniboost-dist, no floor",
        "uniboost-dist",
        1.1,
        kinds=PROMPTS,
    ),
    # gamma.
    Expected("gamma comes to the same from 0.01, 1 and 10 (5 %)", LEARNT, LEARNT, 0, 1.05),
    Expected(
        "clamped to 1 or more it is first come",
        "uniboost, gamma at least 1",
        "fcfs",
        0.9,
        1.1,
        MEAN,
    ),
    Expected(
        "UniBoost's P99 is 0-7 % below first come's, both with a watermark",
        "uniboost, watermark 3 %",
        WATERMARKED,
        0.93,
        1.0,
    ),
    Expected(
        "its gain is the first token (P99) on reasoning",
        "uniboost, watermark 3 %",
        WATERMARKED,
        0,
        0.5,
        FIRST,
        ("reasoning",),
    ),
    # A watermark.
    Expected(
        "a watermark of 3 % takes a tenth to a third off first come's mean",
        WATERMARKED,
        "fcfs",
        0.65,
        0.91,
        MEAN,
    ),
    Expected("20 % is a disaster", first_come(20), WATERMARKED, 2, figure=MEAN, kinds=PROMPTS),
    Expected(
        "the future check does better where outputs are short",
        "fcfs, future check",
        WATERMARKED,
        0,
        1,
        MEAN,
        PROMPTS,
    ),
    Expected(
        "and worse than plain first come on reasoning",
        "fcfs, future check",
        "fcfs",
        1,
        figure=MEAN,
        kinds=("reasoning",),
    ),
    # SVF.
    Expected(
        "burst: SVF's mean is 19-29 % below SJF's", "svf", "sjf", 0.71, 0.81, MEAN, PROMPTS, "burst"
    ),
    Expected("burst: its P95 is 1-11 % below", "svf", "sjf", 0.89, 0.99, P95, PROMPTS, "burst"),
    Expected("burst: one bit is below SJF", "svf-1bit", "sjf", 0, 1, MEAN, PROMPTS, "burst"),
    Expected("burst: but on reasoning", "svf-1bit", "sjf", 1, 9, MEAN, ("reasoning",), "burst"),
    Expected("Poisson: SVF's mean is no worse than SJF's (2 %)", "svf", "sjf", 0, 1.02, MEAN),
    Expected("Poisson: nor its P95", "svf", "sjf", 0, 1.02, P95),
    Expected("Poisson: its P99 is above first come's from 0.95 on", "svf", WATERMARKED, 1),
    Expected(
        "one bit starves the long: P99 above SVF's under noise", "svf-1bit", "svf, noise 0.7", 1
    ),
    Expected(
        "both resources: a mean 12 % lower in a burst of long prompts",
        "svf-2",
        "svf",
        0.83,
        0.93,
        MEAN,
        ("azure",),
        "burst",
    ),
    Expected(
        "both resources: a P99 a fifth lower online",
        "svf-2",
        "svf",
        0,
        0.85,
        P99,
        ("azure",),
        "1.0",
    ),
    # Boosted volume.
    Expected("boosted volume: P99 0-16 % above first come's", "boost-volume", WATERMARKED, 0, 1.16),
    Expected("boosted volume: most of SVF's mean (20 %)", "boost-volume", "svf", 0, 1.2, MEAN),
    Expected(
        "boosted volume: robust to noise (15 %)",
        "boost-volume, noise 0.7",
        "boost-volume",
        0,
        1.15,
    ),
    Expected(
        "boosted volume: on one bit no starvation",
        "boost-volume, one bit",
        "svf-1bit",
        0,
        0.9,
        kinds=PROMPTS,
    ),
)


def verdicts(results: Results) -> str:
    """Hold every expectation against the results: a line each."""
    rows = []
    for expected in EXPECTED:
        try:
            found = {kind: _ratio(results, kind, expected) for kind in _kinds(results)}
        except KeyError:
            rows.append((expected.text, "not run", "", ""))
            continue
        judged = [found[kind] for kind in found if kind in expected.kinds]
        so = all(expected.low <= value <= expected.high for value in judged)
        verdict = _said(so) if judged else "not run"
        bounds = f"{expected.low:g} to {expected.high:g} on {', '.join(expected.kinds)}"
        rows.append((expected.text, verdict, bounds, _figures(found)))
    rows += _best_watermark(results)
    rows += _nobody_has_both(results)
    head = ("expected", "verdict", "ratio expected", "ratio found")
    return markdown(f"What was expected, at load {LOAD} unless said", head, rows)


def _ratio(results: Results, kind: str, expected: Expected) -> float:
    def mean(label: str) -> float:
        return results.mean(kind, expected.load, label, expected.figure)

    ours = (expected.ours,) if isinstance(expected.ours, str) else expected.ours
    most = max(map(mean, ours))
    if expected.theirs is None:
        return most
    theirs = (expected.theirs,) if isinstance(expected.theirs, str) else expected.theirs
    return most / min(map(mean, theirs))


def _kinds(results: Results) -> list[str]:
    return [kind for kind in KINDS if results.labels(kind, LOAD)]


def _best_watermark(results: Results) -> Iterator[tuple[str, str, str, str]]:
    best = {kind: results.best_first_come(kind, LOAD) for kind in _kinds(results)}
    allowed = {kind: (1, 2, 3) if kind in PROMPTS else (3, 5) for kind in best}
    so = all(label in map(first_come, allowed[kind]) for kind, label in best.items())
    found = ", ".join(f"{kind} {label.split()[-2]} %" for kind, label in best.items())
    text = "the best watermark is 1-3 % where prompts are long, 3-5 % on reasoning"
    yield text, _said(so), "", found


def _nobody_has_both(results: Results) -> Iterator[tuple[str, str, str, str]]:
    kinds = _kinds(results)
    near = [set(results.near_both(kind, LOAD)) for kind in kinds]
    both = sorted(set.intersection(*near)) if near else []
    text = "no policy is near the best mean and first come's best P99 everywhere (10 %)"
    yield text, _said(not both), "", "; ".join(both) or "none is"


def _said(so: bool) -> str:
    return "confirmed" if so else "refuted"


def _figures(values: dict[str, float]) -> str:
    return ", ".join(f"{kind} {value:.2f}" for kind, value in values.items())

"""What papers report and what was expected, each held against what bench/policies.py has found."""

from __future__ import annotations

from collections.abc import Callable

from policy_entries import first_come
from policy_results import Results, markdown

LOAD = "0.95"
KINDS = ("azure", "mix", "reasoning")
PROMPTS = ("azure", "mix")  # where prompts fill the cache

CLAIMS = (
    ("P99 to last token", "p99_ttlt", "uniboost", "srpt", "0.50-0.65 (UniBoost)"),
    ("P99 to last token", "p99_ttlt", "uniboost", "srpt, free swap", "0.50-0.65 (UniBoost)"),
    (
        "P99 to last token",
        "p99_ttlt",
        "uniboost",
        "srpt, waiting evicts nobody",
        "0.50-0.65 (UniBoost)",
    ),
    ("P99 to last token", "p99_ttlt", "uniboost", "srpt-repaired", "0.50-0.65 (UniBoost)"),
    ("P99 to last token", "p99_ttlt", "uniboost", first_come(1), "-"),
    ("P99 to first token", "p99_ttft", "uniboost", "srpt", "0.53-0.66 (UniBoost)"),
    ("throughput", "throughput", "uniboost", "srpt", "1.01-1.12 (UniBoost)"),
    ("throughput", "throughput", "uniboost", "fcfs", "1.01-1.12 (UniBoost)"),
    ("seconds per token", "mean_seconds_per_token", "svf", "fcfs", "0.36-0.74 in bursts (SVF)"),
    ("seconds per token", "mean_seconds_per_token", "svf", "sjf", "0.66-0.88 in bursts (SVF)"),
    ("seconds per token", "mean_seconds_per_token", "svf-1bit", "sjf", "0.68-1.55 in bursts (SVF)"),
)
"""Measure, figure, policy, held against, and the ratio that the papers' figures give."""


def claims(results: Results, kind: str, load: str) -> str:
    """Hold ratios of policies, with 95 % intervals over the seeds, against those of the papers."""
    rows = []
    for measure, figure, ours, theirs, paper in CLAIMS:
        try:
            ratio = results.ratio(kind, load, figure, ours, theirs)
        except KeyError:
            rows.append((measure, f"{ours} / {theirs}", "never ends", "", paper))
            continue
        span = f"{ratio.low:.2f}-{ratio.high:.2f}"
        rows.append((measure, f"{ours} / {theirs}", f"{ratio.mean:.2f}", span, paper))
    return markdown(
        f"{kind} at {load}: beside the papers",
        ("measure", "policies", "ratio", "95 %", "the papers'"),
        rows,
    )


def targets(results: Results, load: str) -> str:
    """Hold auto against the best mean and against first come with its best watermark."""
    rows = []
    for kind in (kind for kind in KINDS if results.labels(kind, load)):
        best, first = results.best_mean(kind, load), results.best_first_come(kind, load)
        mean = results.ratio(kind, load, "mean_ttlt", "auto", best)
        tail = results.ratio(kind, load, "p99_ttlt", "auto", first)
        means = [results.mean(kind, load, label, "mean_ttlt") for label in ("auto", best)]
        tails = [results.mean(kind, load, label, "p99_ttlt") for label in ("auto", first)]
        rows.append(
            (
                kind,
                f"{means[0]:.2f} / {means[1]:.2f} ({best})",
                f"{means[0] / means[1]:.2f} ({mean.low:.2f}-{mean.high:.2f})",
                f"{tails[0]:.1f} / {tails[1]:.1f} ({first})",
                f"{tails[0] / tails[1]:.2f} ({tail.low:.2f}-{tail.high:.2f})",
                "yes" if means[0] <= 1.1 * means[1] and tails[0] <= 1.1 * tails[1] else "no",
            )
        )
    return markdown(
        f"auto at {load}, lengths known: both within 10 %?",
        ("workload", "mean / best", "ratio", "P99 / first come", "ratio", "both"),
        rows,
    )


def fronts(results: Results, load: str) -> str:
    """Show who is beaten by nobody in both mean and P99."""
    rows = [
        (f"{kind}: {label}", *(f"{results.mean(kind, load, label, name):.2f}" for name in names))
        for names in [("mean_ttlt", "p99_ttlt", "p99.9_ttlt")]
        for kind in KINDS
        if results.labels(kind, load)
        for label in results.front(kind, load)
    ]
    return markdown(f"Front of mean and P99 at {load}", ("policy", "mean", "P99", "P99.9"), rows)


Ratio = Callable[[str, str, str, str], float]


class Findings:
    """The expectations: each a line, whether it is so, and the figures that say so."""

    def __init__(self, results: Results, load: str = LOAD) -> None:
        self.results = results
        self.load = load
        self.kinds = [kind for kind in KINDS if results.labels(kind, load)]
        self.lines: list[tuple[str, str, str]] = []

    def ratios(
        self, ours: str, theirs: str, figure: str = "p99_ttlt", load: str | None = None
    ) -> dict[str, float]:
        """Ratio of two policies' means over the seeds, by workload."""
        at = load or self.load
        return {
            kind: self.results.mean(kind, at, ours, figure)
            / self.results.mean(kind, at, theirs, figure)
            for kind in self.kinds
        }

    def note(self, text: str, so: bool, figures: str) -> None:
        """Keep a verdict."""
        self.lines.append((text, "confirmed" if so else "refuted", figures))

    def all(self) -> str:
        """Give every verdict; those whose runs are not there are left out."""
        for check in (
            self.collapse,
            self.steps,
            self.learning,
            self.watermark,
            self.volume,
            self.boosted_volume,
        ):
            try:
                check()
            except KeyError as missing:
                self.lines.append((check.__name__, "not run", str(missing)))
        head = ("expected", "verdict", "ratios")
        return markdown(f"What was expected, at load {self.load}", head, self.lines)

    def collapse(self) -> None:
        """UniBoost against SRPT with perfect lengths."""
        ratio = self.ratios("uniboost", "srpt")
        prompts = [ratio[kind] for kind in self.kinds if kind in PROMPTS]
        self.note(
            "UniBoost's P99 is far below SRPT's where prompts are long",
            max(prompts) < 0.9,
            said(ratio),
        )
        ratio = self.ratios(first_come(3), "uniboost")
        self.note(
            "first come with a watermark has that P99 too", max(ratio.values()) < 1.05, said(ratio)
        )
        share = {
            kind: self.results.mean(kind, self.load, "srpt", "recomputed_share")
            for kind in self.kinds
        }
        self.note(
            "SRPT recomputes over half a token for every useful one",
            max(share.values()) > 0.5,
            said(share),
        )
        variants = ("srpt", "srpt, free swap", "srpt, waiting evicts nobody", "srpt-repaired")
        tails = {
            kind: [self.results.mean(kind, self.load, label, "p99_ttlt") for label in variants]
            for kind in self.kinds
        }
        spread = {kind: max(values) / min(values) for kind, values in tails.items()}
        self.note(
            "what an SRPT may do besides moves its P99 by a factor",
            max(spread.values()) > 2,
            said(spread),
        )
        ratio = self.ratios("srpt-repaired", "srpt")
        self.note(
            "counting the prefill to do repairs SRPT's P99 (a fifth or less)",
            min(ratio.values()) < 0.2,
            said(ratio),
        )
        ratio = self.ratios("srpt-repaired", first_come(1))
        self.note("and makes it as good as first come's", max(ratio.values()) < 1.1, said(ratio))

    def steps(self) -> None:
        """The steps of UniBoost."""
        later = ("uniboost-space", "uniboost-guard", "uniboost")
        worst = {
            kind: max(self.ratios("uniboost-dist", label)[kind] for label in later)
            for kind in self.kinds
        }
        self.note(
            "boost order without preemption for rank is at most 1 % above the P99 of any later step",
            max(worst.values()) < 1.01,
            said(worst),
        )
        ratio = self.ratios("uniboost-space, hysteresis 0", "uniboost-space", "mean_ttlt")
        self.note(
            "one space without hysteresis collapses (mean)", min(ratio.values()) > 2, said(ratio)
        )
        ratio = self.ratios("uniboost-space, hysteresis 0.1 s", "uniboost-space", "mean_ttlt")
        self.note(
            "0.1 s of hysteresis does not cure it, 10 s does",
            min(ratio.values()) > 1.2,
            said(ratio),
        )
        ratio = self.ratios("uniboost-guard, k 64", "uniboost-guard", "mean_ttlt")
        self.note(
            "the guard collapses with k = 64 on long prompts",
            max(ratio[kind] for kind in self.kinds if kind in PROMPTS) > 2,
            said(ratio),
        )
        ratio = self.ratios("uniboost-guard, hysteresis 0", "uniboost-guard", "mean_ttlt")
        self.note(
            "with k = 256 the guard still gains from hysteresis",
            max(ratio.values()) > 1.02,
            said(ratio),
        )
        swapped = [
            f"{name}, free swap" for name in ("uniboost-dist", "uniboost-space", "uniboost-guard")
        ]
        spread = {
            kind: max(self.results.mean(kind, self.load, label, "p99_ttlt") for label in swapped)
            / min(self.results.mean(kind, self.load, label, "p99_ttlt") for label in swapped)
            for kind in self.kinds
        }
        self.note(
            "with free swap the steps are equal (P99, 5 %)",
            max(spread.values()) < 1.05,
            said(spread),
        )
        ratio = self.ratios("uniboost-guard", "uniboost-dist", "mean_ttlt")
        self.note(
            "the guard betters the mean of two queues by 3-8 % at best",
            0.9 < min(ratio.values()) < 0.98,
            said(ratio),
        )
        ratio = self.ratios("uniboost-dist, no floor", "uniboost-dist")
        self.note(
            "without the floor of the prefill, arrivals boosted without bound cost the tail",
            max(ratio.values()) > 1.1,
            said(ratio),
        )

    def learning(self) -> None:
        """gamma-Ada."""
        starts = ("uniboost, from gamma 0.01", "uniboost, from gamma 1", "uniboost, from gamma 10")
        spread = {
            kind: max(self.ratios(label, "uniboost")[kind] for label in starts)
            / min(self.ratios(label, "uniboost")[kind] for label in starts)
            for kind in self.kinds
        }
        self.note(
            "gamma learnt from 0.01, 1 or 10 comes to the same P99 (5 %)",
            max(spread.values()) < 1.05,
            said(spread),
        )
        ratio = self.ratios("uniboost, gamma at least 1", "fcfs", "mean_ttlt")
        self.note(
            "clamped to 1 or more it is first come (mean, 10 %)",
            all(abs(r - 1) < 0.1 for r in ratio.values()),
            said(ratio),
        )
        ratio = self.ratios("uniboost, watermark 3 %", first_come(3))
        self.note(
            "UniBoost's P99 is below first come's, both with a watermark",
            max(ratio.values()) < 1,
            said(ratio),
        )
        ratio = self.ratios("uniboost, watermark 3 %", first_come(3), "p99_ttft")
        self.note(
            "its gain is the first token on reasoning (P99)",
            ratio.get("reasoning", 1) < 0.5,
            said(ratio),
        )

    def watermark(self) -> None:
        """A watermark, and the future check, for first come."""
        ratio = self.ratios(first_come(3), "fcfs", "mean_ttlt")
        self.note(
            "a watermark of 3 % alone takes a tenth to a third off the mean",
            max(ratio.values()) < 0.93,
            said(ratio),
        )
        best = {kind: self.results.best_first_come(kind, self.load) for kind in self.kinds}
        few = all(
            best[kind] in map(first_come, (1, 2, 3)) for kind in self.kinds if kind in PROMPTS
        )
        more = best.get("reasoning", first_come(5)) in map(first_come, (3, 5))
        told = ", ".join(f"{kind} {label.split()[-2]} %" for kind, label in best.items())
        self.note("best: 1-3 % where prompts are long, 3-5 % on reasoning", few and more, told)
        ratio = self.ratios(first_come(20), first_come(3), "mean_ttlt")
        self.note(
            "20 % is a disaster (mean)",
            min(ratio[kind] for kind in self.kinds if kind in PROMPTS) > 2,
            said(ratio),
        )
        ratio = self.ratios("fcfs, future check", first_come(3), "mean_ttlt")
        self.note(
            "the future check is better than a watermark where outputs are short",
            max(ratio[kind] for kind in self.kinds if kind in PROMPTS) < 1,
            said(ratio),
        )
        ratio = self.ratios("fcfs, future check", "fcfs", "mean_ttlt")
        self.note(
            "and worse than plain first come on reasoning",
            ratio.get("reasoning", 2) > 1,
            said(ratio),
        )

    def volume(self) -> None:
        """SVF and one bit."""
        ratio = self.ratios("svf", "sjf", "mean_ttlt", "burst")
        self.note(
            "in a burst SVF's mean is 19-29 % below SJF's where prompts differ",
            all(0.68 < ratio[kind] < 0.83 for kind in self.kinds if kind in PROMPTS),
            said(ratio),
        )
        ratio = self.ratios("svf", "sjf", "p95_ttlt", "burst")
        self.note("and its P95 at most as high", max(ratio.values()) <= 1.005, said(ratio))
        ratio = self.ratios("svf-1bit", "sjf", "mean_ttlt", "burst")
        self.note(
            "one bit is below SJF in a burst, but on reasoning",
            all((r < 1) == (kind != "reasoning") for kind, r in ratio.items()),
            said(ratio),
        )
        ratio = self.ratios("svf", "sjf", "mean_ttlt")
        self.note(
            "under Poisson arrivals SVF's mean is no worse than SJF's (2 %)",
            max(ratio.values()) < 1.02,
            said(ratio),
        )
        ratio = self.ratios("svf", "sjf", "p95_ttlt")
        self.note("nor its P95", max(ratio.values()) < 1.02, said(ratio))
        ratio = self.ratios("svf", first_come(3))
        self.note(
            "its P99 is above first come's from 0.95 on", min(ratio.values()) > 1, said(ratio)
        )
        ratio = self.ratios("svf-1bit", "svf, noise 0.7")
        self.note(
            "one bit alone starves: its P99 is above that under noise",
            min(ratio.values()) > 1,
            said(ratio),
        )
        ratio = self.ratios("svf-2", "svf", "mean_ttlt", "burst")
        self.note(
            "counting compute too takes 12 % off the burst's mean on long prompts",
            ratio.get("azure", 1) < 0.92,
            said(ratio),
        )
        ratio = self.ratios("svf-2", "svf")
        self.note("and 15 % or more off the P99 online", ratio.get("azure", 1) < 0.85, said(ratio))

    def boosted_volume(self) -> None:
        """Boost on predicted volume, and whether anybody dominates."""
        ratio = self.ratios("boost-volume", first_come(3))
        self.note(
            "boosted volume has a P99 of 0-16 % above first come's",
            max(ratio.values()) < 1.16,
            said(ratio),
        )
        ratio = self.ratios("boost-volume", "svf", "mean_ttlt")
        self.note("with most of SVF's mean (20 %)", max(ratio.values()) < 1.2, said(ratio))
        ratio = self.ratios("boost-volume, noise 0.7", "boost-volume")
        self.note("it is robust to noise (P99, 15 %)", max(ratio.values()) < 1.15, said(ratio))
        ratio = self.ratios("boost-volume, one bit", "svf-1bit")
        self.note(
            "on one bit it cures the starvation (P99)", max(ratio.values()) < 0.9, said(ratio)
        )
        both = [
            label
            for label in self.results.labels(self.kinds[0], self.load)
            if self._near_both(label)
        ]
        self.note(
            "no policy is within 10 % of the best mean and of first come's best P99 everywhere",
            not both,
            ", ".join(both) or "none",
        )

    def _near_both(self, label: str) -> bool:
        results, load = self.results, self.load
        return all(
            label in results.labels(kind, load)
            and results.mean(kind, load, label, "mean_ttlt")
            <= 1.1 * results.mean(kind, load, results.best_mean(kind, load), "mean_ttlt")
            and results.mean(kind, load, label, "p99_ttlt")
            <= 1.1 * results.mean(kind, load, results.best_first_come(kind, load), "p99_ttlt")
            for kind in self.kinds
        )


def said(values: dict[str, float]) -> str:
    """Give a figure of each workload."""
    return ", ".join(f"{kind} {value:.2f}" for kind, value in values.items())

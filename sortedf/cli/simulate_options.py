"""The options of `sortedf simulate`: what arrives when, what is known of it, the engine's side."""

from __future__ import annotations

from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.engine_options import Started
from sortedf.errors import OptionError

if TYPE_CHECKING:
    from sortedf.serving.arriving import Arriving
    from sortedf.serving.requests import Requests
    from sortedf.serving.workloads import Workload

DEFAULT_KIND = "mix"
DEFAULT_REQUESTS = 2000
DEFAULT_KV_TOKENS = 16_492
"""For requests that are drawn: the budget of the packaged example."""
MOST_REQUESTS = 10_000_000


def _number(flag: str, metavar: str, help: str) -> Any:
    return typer.Option(flag, metavar=metavar, help=help, show_default=False)


@dataclass(frozen=True)
class Traffic:
    """What arrives when."""

    trace: Annotated[
        str | None,
        typer.Argument(
            metavar="TRACE",
            help="Trace or backlog with time stamps or releases, as solve reads it; - is stdin. "
            "Left out: requests are drawn.",
            show_default=False,
        ),
    ] = None
    poisson: Annotated[
        float | None,
        _number("--poisson", "RATE", "Poisson arrivals: --arrivals poisson --rate RATE."),
    ] = None
    arrivals: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="own, the stamps of TRACE; poisson; bursty, Poisson in two states; at-once.",
            show_default="own of TRACE, else poisson",
        ),
    ] = None
    rate: Annotated[
        float | None, _number("--rate", "R", "Requests a second (--engine steps: a step).")
    ] = None
    load: Annotated[
        float | None,
        _number("--load", "L", "The rate, as a share of what first come completes at most."),
    ] = None
    burst_ratio: Annotated[
        float | None,
        typer.Option(metavar="X", help="bursty: high rate over low.", show_default="3"),
    ] = None
    burst_share: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="bursty: share of time in the high one.", show_default="0.2"
        ),
    ] = None
    burst_seconds: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="bursty: in which a state is forgotten (1 / e).", show_default="2"
        ),
    ] = None
    shift: Annotated[
        float | None, _number("--shift", "X", "X times as many arrive from a moment on.")
    ] = None
    shift_at: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="--shift: from when on.", show_default="when half have arrived"
        ),
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Without TRACE, what is drawn: mix (chats and summaries), reasoning, pareto.",
            show_default=DEFAULT_KIND,
        ),
    ] = None
    requests: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_REQUESTS,
            metavar="N",
            help="How many; of TRACE the first.",
            show_default=f"{DEFAULT_REQUESTS:,}, or all of TRACE",
        ),
    ] = None
    kv_tokens: options.KvTokens = None
    skip_bad_lines: options.SkipBadLines = False
    skip_oversized: options.SkipOversized = False

    def arriving(self) -> Arriving:
        """Give the process of arrivals, checked."""
        from sortedf.serving.arriving import Arriving, Process

        process, rate = self.arrivals, self.rate
        if self.poisson is not None:
            if process not in (None, Process.POISSON) or rate is not None:
                raise OptionError(
                    "--poisson says what arrives how often; leave --arrivals and --rate out"
                )
            process, rate = Process.POISSON, self.poisson
        if process is None:
            process = Process.POISSON if self.trace is None else Process.OWN
        if process == Process.OWN and self.trace is None:
            raise OptionError("requests that are drawn have no stamps of their own; name a TRACE")
        names = ("burst_ratio", "burst_share", "burst_seconds", "shift", "shift_at", "load")
        if self.trace is None and process != Process.AT_ONCE and rate is None and self.load is None:
            raise OptionError("what arrives? name a TRACE, or say --poisson RATE or --load L")
        return Arriving(process=process, rate=rate, **{name: getattr(self, name) for name in names})

    def check_drawn(self) -> None:
        """Refuse options of requests that are read where they are drawn, and the other way."""
        from sortedf.serving.workloads import LENGTHS

        if self.trace is not None and self.kind is not None:
            raise OptionError("--kind is of requests that are drawn; TRACE brings its own")
        if self.trace is None and (self.skip_bad_lines or self.skip_oversized):
            raise OptionError("--skip-bad-lines and --skip-oversized are of a TRACE")
        if self.kind is not None and self.kind not in LENGTHS:
            raise OptionError(f"--kind is {self.kind!r}; it must be one of {', '.join(LENGTHS)}")

    def read(self, kv_tokens: int, *, stamps: bool, console: Console) -> Requests:
        """Read TRACE, or say what is to be drawn; requests over the budget are refused."""
        from sortedf.serving.requests import Requests, first_requests

        if self.trace is None:
            return Requests(
                n=self.requests or DEFAULT_REQUESTS,
                kv_tokens=kv_tokens,
                kind=self.kind or DEFAULT_KIND,
            )
        with console.status(f"reading {self.trace}"):
            trace = self._trace(self.trace, kv_tokens, stamps, console)
        if self.requests is not None:
            trace = first_requests(trace, self.requests)
        kept = options.within_budget(trace.instance, 1, self.skip_oversized, console)
        if kept.skipped:
            import numpy as np

            from sortedf.serving.workloads import Workload

            times = np.delete(trace.arrivals, kept.positions)
            trace = Workload(kept.instance, times, trace.name)
        return Requests(n=len(trace), kv_tokens=kv_tokens, trace=trace)

    def _trace(self, path: str, kv_tokens: int, stamps: bool, console: Console) -> Workload:
        from pathlib import Path

        from sortedf.instances import read_backlog
        from sortedf.serving.arrivals import burst
        from sortedf.serving.workloads import Workload, of_trace

        reading: dict[str, Any] = {"skip_bad_lines": self.skip_bad_lines, "note": console.note}
        if stamps:
            found = of_trace(path, kv_tokens=kv_tokens, **reading)
        else:
            instance = read_backlog(path, kv_tokens=kv_tokens, **reading)
            found = Workload(instance, burst(len(instance)), Path(path).stem)
        return replace(found, name="standard input") if path == "-" else found


@dataclass(frozen=True)
class ServingEngine(Started):
    """The engine that serves what arrives."""


def _of_no_plan(name: str, hint: Any) -> Any:
    """Give an option whose default has nothing to do with a plan."""
    kind, option = get_args(hint)
    defaults = {"num_gpu_blocks": "what holds --kv-tokens", "engine_block_size": "16"}
    option = copy(option)
    option.show_default = defaults.get(name, option.show_default)
    return Annotated[kind, option]


ServingEngine.__annotations__ |= {
    name: _of_no_plan(name, hint)
    for name, hint in get_type_hints(Started, include_extras=True).items()
}


@dataclass(frozen=True)
class Side:
    """The engine's side of every policy; left out, each policy's own."""

    eviction: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What an evicted request keeps: recompute, swap, restart.",
            show_default="the policy's",
        ),
    ] = None
    displaces: Annotated[
        bool | None,
        typer.Option(help="Whether waiting may evict running.", show_default="the policy's"),
    ] = None
    hysteresis: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="--displaces: by how much worse.", show_default="the policy's"
        ),
    ] = None
    victim: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Who goes when blocks run out: tail, worst, least.",
            show_default="the policy's",
        ),
    ] = None
    watermark: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Share of the blocks kept free.", show_default="the policy's"
        ),
    ] = None
    future: Annotated[
        bool | None,
        typer.Option(
            help="Whether an admission needs room for predicted outputs.",
            show_default="the policy's",
        ),
    ] = None
    lookahead: options.Lookahead = None
    swap_seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="swap: for each token and way.", show_default="0"),
    ] = None

    def given(self) -> dict[str, Any]:
        """Give what is not left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

"""`sortedf simulate`: online policies on requests that keep arriving, side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.engine_options import StepTimes
from sortedf.cli.outputs import check_outputs, same_file
from sortedf.cli.simulate_options import DEFAULT_KV_TOKENS, ServingEngine, Side, Traffic
from sortedf.errors import OptionError

if TYPE_CHECKING:
    from sortedf.engine import Calibration, EngineSettings
    from sortedf.model import Instance
    from sortedf.serving.known_texts import Known
    from sortedf.serving.policy_texts import Named
    from sortedf.serving.side_by_side import SideBySide

DEFAULT_STEPTIME = "qwen3-8b-h100"
MOST_SEEDS = 1000


class EngineKind(StrEnum):
    """What serves the requests."""

    REPLAY = "replay"
    STEPS = "steps"


@options.grouped
def simulate(
    traffic: Traffic,
    policy: Annotated[
        str,
        typer.Option(
            metavar="A,B,...",
            help="Policies by name, or all; options after colons: srpt:eviction=swap.",
        ),
    ] = "all",
    known: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="What is known of output lengths: exact, noisy:SIGMA, interval:SPREAD, one-bit, "
            "nothing, learned:HISTORY.",
        ),
    ] = "exact",
    engine: Annotated[
        EngineKind,
        typer.Option(help="vLLM's scheduler replayed, in seconds; or the steps of the theory."),
    ] = EngineKind.REPLAY,
    steptime: StepTimes = None,
    *,
    settings: ServingEngine,
    side: Side,
    seed: options.Seed = 0,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, max=MOST_SEEDS, metavar="K", help="So many seeds; figures get intervals."
        ),
    ] = 1,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Where to write the page; - is stdout.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Serve requests that keep arriving.

    Every policy gets the same requests; means, tails and what they cost stand side by side, each
    with the engine's side of it. Give a TRACE, or --poisson RATE or --load L for requests that are
    drawn.
    """
    from sortedf.serving.known_texts import history_of_known, read_known

    history = history_of_known(known)
    if (traffic.trace, steptime, history).count("-") > 1:
        raise OptionError("TRACE, --steptime and a history cannot both be stdin")
    if same_file(traffic.trace, history):
        raise OptionError(
            f"{history} is what is to be served; learn lengths from other requests, earlier ones"
        )
    check_outputs({"-o": output}, traffic.trace, steptime, history, json=json)
    from sortedf.serving.policy_texts import read_policies
    from sortedf.serving.side_by_side import SideBySide

    console = Console(quiet=quiet)
    arriving = traffic.arriving()
    traffic.check_drawn()
    named = read_policies(policy, side.given())
    with console.status(f"learning from {history}") if history else nullcontext():
        lengths = read_known(known, console.note)
    in_steps = engine is EngineKind.STEPS
    started, step_times, steptime = _engine(in_steps, settings, traffic, steptime, console)
    named = _served(named, policy, lengths, started, step_times, in_steps, side.given(), console)
    drawn = arriving.is_drawn or lengths.is_drawn or traffic.trace is None
    if not drawn and (seeds > 1 or seed):
        raise OptionError(
            "nothing is drawn at random here, so seeds change nothing; leave --seed and --seeds "
            "out, or let requests arrive otherwise (--arrivals poisson --load 0.9)"
        )
    from sortedf.serving.requests import most_served, rate_of

    kv_tokens = _kv_tokens(traffic) if started is None else started.kv_tokens
    requests = traffic.read(kv_tokens, stamps=arriving.process == "own", console=console)
    numbers = range(seed, seed + seeds)
    model = None if step_times is None else step_times.model
    first = _fitting(requests.lengths(seed))
    with console.status("measuring what a load of 1 is"):
        saturated = most_served(first, started, model)
    rate = rate_of(arriving, saturated)
    served = SideBySide(
        workloads=requests.workloads(arriving, rate, numbers, whole=in_steps),
        seeds=numbers,
        known=lengths,
        settings=started,
        step_time=model,
    )
    for workload in served.workloads:
        _fitting(workload.instance)
    rows, interrupted = _rows(served, named, console)
    from sortedf import __version__

    document = served.document(rows, rate, saturated) | {
        "version": __version__,
        "complete": not interrupted,
        "drawn": drawn,
        "arrivals": {name: _plain(value) for name, value in asdict(arriving).items()},
        "settings": None if started is None else _told(started),
        "steptime_file": steptime,
        "steptime": None if step_times is None else step_times.to_dict(),
    }
    _show(document, output, json, console)
    if interrupted:
        console.note(f"{len(rows)} of {len(named)} policies were simulated")
        raise typer.Exit(130)


def _fitting(instance: Instance) -> Instance:
    """Refuse requests that were drawn over the budget."""
    from sortedf.errors import InfeasibleError
    from sortedf.solvers import oversized_requests

    if oversized := oversized_requests(instance):
        raise InfeasibleError(oversized, instance.kv_tokens)
    return instance


def _kv_tokens(traffic: Traffic) -> int:
    if traffic.kv_tokens is not None:
        return traffic.kv_tokens
    if traffic.trace is not None:
        raise OptionError("--kv-tokens is missing: the KV budget in tokens (see sortedf kv-budget)")
    return DEFAULT_KV_TOKENS


def _engine(
    in_steps: bool,
    settings: ServingEngine,
    traffic: Traffic,
    steptime: str | None,
    console: Console,
) -> tuple[EngineSettings | None, Calibration | None, str | None]:
    """Give the engine, its step times and their name; nothing of it in steps."""
    given = settings.given()
    if in_steps:
        if steptime is not None or given:
            names = ", ".join(["steptime"] * (steptime is not None) + list(given))
            raise OptionError(f"{names}: the model in steps has no engine; leave it out")
        return None, None, None
    from sortedf.engine import EngineSettings, read_step_times
    from sortedf.engine.settings import check_settings

    check_settings(given)
    if "num_gpu_blocks" not in given:
        _kv_tokens(traffic)
    elif traffic.kv_tokens is not None:
        raise OptionError("--kv-tokens and --num-gpu-blocks are two words for one; leave one out")
    if steptime is None:
        steptime = DEFAULT_STEPTIME
        console.note(f"step times of {steptime}; --steptime names others")
    step_times = read_step_times(steptime)
    given = check_settings(given, step_times.shared_blocks)
    if "num_gpu_blocks" in given:
        return EngineSettings(**given), step_times, steptime
    return EngineSettings.for_budget(_kv_tokens(traffic), **given), step_times, steptime


def _served(
    named: list[Named],
    text: str,
    known: Known,
    settings: EngineSettings | None,
    step_times: Calibration | None,
    in_steps: bool,
    given: Collection[str],
    console: Console,
) -> list[Named]:
    """Refuse policies that cannot be carried out; of `all`, leave them out with a note."""
    from sortedf.serving.side_by_side import idle, missing

    model = None if step_times is None else step_times.model
    kept = []
    left_out: dict[str, list[str]] = {}
    for one in named:
        why = missing(one, known, settings, model, in_steps=in_steps)
        if why is None:
            kept.append(one)
        elif text.strip() != "all":
            raise OptionError(f"{one.text}: {why}")
        else:
            left_out.setdefault(why, []).append(one.text)
    if not kept:
        raise OptionError("; ".join(left_out))
    for name in given:
        needed = [idle(one, name, in_steps=in_steps) for one in kept]
        if None not in needed:
            raise OptionError(f"{name} changes nothing here without {needed[0]}")
    for why, texts in left_out.items():
        console.note(f"left out: {', '.join(texts)}: {why}")
    return kept


def _rows(
    served: SideBySide, named: Sequence[Named], console: Console
) -> tuple[list[dict[str, Any]], bool]:
    """Serve the requests under each policy; gives the rows, and whether Ctrl-C ended it."""
    rows: list[dict[str, Any]] = []
    try:
        for one in console.track(named, "simulating", len(named)):
            rows.append(served.serve(one))
            if rows[-1]["error"] is not None:
                console.note(f"{one.text}: {rows[-1]['error']}")
    except KeyboardInterrupt:
        if not rows:
            raise
        return rows, True
    return rows, False


def _show(document: dict[str, Any], output: str | None, json: bool, console: Console) -> None:
    if json:
        console.json(document)
    elif output != "-":
        from sortedf.report import simulation_tables

        console.show(simulation_tables.simulation(document, console.width))
    if output is not None:
        from sortedf.instances.files import write_whole
        from sortedf.report import simulation_page

        with console.status(f"writing {output}"):
            page = simulation_page.page(document)
            write_whole(output, [page.encode(errors="backslashreplace")])
        if output != "-":
            console.note(f"page written to {output}")


def _told(settings: EngineSettings) -> dict[str, Any]:
    """Give the engine's settings, without what is each policy's."""
    from sortedf.cli.seconds import told

    found = told(settings)
    return {name: found[name] for name in found if name not in ("policy", "watermark", "lookahead")}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, StrEnum) else value

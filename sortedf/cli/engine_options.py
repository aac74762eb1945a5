"""The options of commands that replay a plan on the engine, in seconds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli.console import Console
from sortedf.errors import OptionError

if TYPE_CHECKING:
    from sortedf.engine import EngineSettings, StepTimeModel
    from sortedf.model import Instance, Result

StepTime = Annotated[
    str | None,
    typer.Option(
        "--steptime",
        metavar="FILE",
        help="Seconds too, by a step-time model: a file, or the name of a packaged one.",
        show_default=False,
    ),
]
MaxNumSeqs = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="--steptime: the engine's most requests at once.",
        show_default="256",
    ),
]
MaxNumBatchedTokens = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="--steptime: the engine's most tokens in a step.",
        show_default="8192",
    ),
]


@dataclass(frozen=True)
class Engine:
    """The engine on which a plan is replayed in seconds."""

    steptime: StepTime = None
    max_num_seqs: MaxNumSeqs = None
    max_num_batched_tokens: MaxNumBatchedTokens = None

    def settings(self) -> dict[str, Any]:
        """Give the settings that are not left to their defaults."""
        given = asdict(self)
        del given["steptime"]
        return {name: value for name, value in given.items() if value is not None}

    def load(self) -> StepTimeModel | None:
        """Read the step-time model, and refuse settings that no engine has or nobody reads."""
        from sortedf.engine import EngineSettings, published, read_step_time

        settings = self.settings()
        if self.steptime is None:
            for name in settings:
                raise OptionError(f"--{name.replace('_', '-')} is of --steptime, which is missing")
            return None
        EngineSettings(num_gpu_blocks=2, **settings)
        return published().get(self.steptime) or read_step_time(self.steptime)

    def execute(self, result: Result, model: StepTimeModel, console: Console) -> dict[str, Any]:
        """Replay a plan; its figures in seconds."""
        from sortedf.engine import engine_of_plan, execute, figures_in_seconds

        settings = engine_of_plan(result, **self.settings())
        with console.status("replaying the plan on the engine"):
            found = execute(result, model, settings)
        return figures_in_seconds(found) | {"engine": _told(settings, model, self.steptime)}


def best_in_seconds(
    instance: Instance,
    model: StepTimeModel,
    console: Console,
    *,
    bound: bool,
    settings: dict[str, Any],
    **options: int,
) -> Result:
    """Plan in the order whose replay has the least mean latency in seconds; a note says which."""
    from sortedf.solvers import solve
    from sortedf.solvers.on_seconds import plans_in_seconds

    with console.status("replaying list schedules on the engine"):
        tried = plans_in_seconds(instance, model, **options, **settings)
    best, by_steps = tried[0], min(tried, key=lambda timed: timed.result.total_latency)
    console.note(
        f"least mean of {len(tried)} orders: {best.mean_latency:,.3f} s "
        f"({best.result.mean_latency:,.1f} steps) by {_order(best.result)}; the best in steps, "
        f"{_order(by_steps.result)}, has {by_steps.mean_latency:,.3f} s "
        f"({by_steps.result.mean_latency:,.1f} steps)"
    )
    chosen = best.result
    with console.status("planning"):
        return solve(
            instance,
            solver=chosen.solver,
            block_size=chosen.block_size,
            bound=bound,
            **chosen.parameters,
        )


def _order(result: Result) -> str:
    weight = result.parameters.get("prefill_weight")
    return result.solver if weight is None else f"{result.solver} with prefill weight {weight:.4g}"


def _told(settings: EngineSettings, model: StepTimeModel, name: str | None) -> dict[str, Any]:
    return {
        "steptime": name,
        "coefficients": model.to_dict()["coefficients"],
        "version": settings.version.name,
        "policy": str(settings.policy),
        "num_gpu_blocks": settings.num_gpu_blocks,
        "block_size": settings.block_size,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "async_scheduling": settings.async_scheduling,
    }

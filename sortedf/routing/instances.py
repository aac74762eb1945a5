"""The instances that a request may go to: model, engine, price and quality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sortedf.engine.settings import EngineSettings, Policy
from sortedf.engine.step_time import StepTimeModel, published
from sortedf.errors import OptionError

TASKS = ("alpaca", "govreport", "hotpotqa", "writingprompts")
"""The published comparison's tasks."""

MOST = 1e9
"""Of a price, and of the weight of cost: what costs more is not worth to be told apart."""


@dataclass(frozen=True, kw_only=True)
class EngineInstance:
    """A model on an engine of its own.

    Parameters
    ----------
    name
        For tables.
    step_time
        How long its steps take.
    settings
        The engine, its KV budget included.
    prompt_price, output_price
        Dollars a million tokens.
    quality
        Per cent by task.
    mean_output
        Tokens of its answers on average, for workloads that are drawn.

    Raises
    ------
    OptionError
        For a price outside 0..1e9, a quality outside 0..100, or an engine that cannot be replayed
        ahead.
    """

    name: str
    step_time: StepTimeModel
    settings: EngineSettings
    prompt_price: float
    output_price: float
    quality: Mapping[str, float] = field(default_factory=dict)
    mean_output: float = 1_550.0

    def __post_init__(self) -> None:
        check_live(self.settings)
        for what in ("prompt_price", "output_price"):
            if not 0 <= getattr(self, what) <= MOST:
                raise OptionError(
                    f"{what} of {self.name} is {getattr(self, what)!r}; give dollars a million "
                    f"tokens, 0 to {MOST:g}"
                )
        for task, value in self.quality.items():
            if not 0 <= value <= 100:
                raise OptionError(
                    f"quality of {self.name} for {task} is {value!r}; give per cent, 0 to 100"
                )

    def utility(
        self, task: str, prompt_tokens: float, output_tokens: float, weight: float
    ) -> float:
        """Give (quality - weight x cost) / 100; see :func:`sortedf.routing.workload.utilities`."""
        cost = prompt_tokens * self.prompt_price + output_tokens * self.output_price
        return (self.quality[task] - weight * cost) / 100


def check_weight(weight: float, name: str = "weight") -> None:
    """Refuse a weight of cost in utility that is none."""
    if not 0 <= weight <= MOST:
        raise OptionError(f"{name} is {weight!r}; it must be a number in 0 .. {MOST:g}")


def check_live(settings: EngineSettings) -> None:
    """Refuse settings that the replay ahead does not know."""
    if settings.policy != Policy.FCFS:
        raise OptionError(f"instances are first come, first served, not {settings.policy}")
    if settings.enable_prefix_caching:
        raise OptionError("instances are replayed without prefix caching; turn it off")


_PUBLISHED = (
    ("Qwen3-0.6B", "qwen3-0.6b-h100", 0.044, 0.173, (53.49, 29.02, 40.98, 17.73), 600_000, 1_450),
    ("Qwen3-8B", "qwen3-8b-h100", 0.072, 0.287, (82.67, 86.62, 88.28, 57.47), 380_000, 1_550),
    ("Qwen3-32B", "qwen3-32b-h100-tp2", 0.287, 0.640, (88.85, 95.93, 92.69, 80.69), 300_000, 2_000),
)


def published_instances() -> tuple[EngineInstance, ...]:
    """Give the three instances of arXiv 2607.18253.

    Coefficients, prices, qualities, 512 seats and 32,768 tokens a step are published; the KV
    budgets (80 GB GPUs, less the weights) and the mean outputs are assumed for this project.
    """
    models = published()
    return tuple(
        EngineInstance(
            name=name,
            step_time=models[coefficients],
            settings=EngineSettings.for_budget(
                kv_tokens, max_num_seqs=512, max_num_batched_tokens=32_768
            ),
            prompt_price=prompt_price,
            output_price=output_price,
            quality=dict(zip(TASKS, quality, strict=True)),
            mean_output=mean_output,
        )
        for (
            name,
            coefficients,
            prompt_price,
            output_price,
            quality,
            kv_tokens,
            mean_output,
        ) in _PUBLISHED
    )

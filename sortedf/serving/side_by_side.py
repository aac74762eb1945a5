"""Many policies on the same requests, side by side, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from sortedf.engine.settings import EngineSettings
from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import OptionError, SortedfError
from sortedf.kernels.standing import BOUND
from sortedf.model import Instance
from sortedf.serving.ablation import ablation
from sortedf.serving.distributions import at_shares, attained, shares, slowdowns, targets
from sortedf.serving.front import simulate
from sortedf.serving.knowledge import Knowledge
from sortedf.serving.known_texts import Known
from sortedf.serving.metrics import figures, intervals
from sortedf.serving.policy_texts import Named
from sortedf.serving.replaying import PolicyReplay
from sortedf.serving.served import Served
from sortedf.serving.step_model import STEP
from sortedf.serving.workloads import Workload

UNITS = {"replay": "seconds", "steps": "steps"}
"""Of times, by engine."""

CONFIDENCE = 0.95


NOT_IN_STEPS = ("watermark", "future", "swap_seconds")
"""What the model in steps decides itself."""


def missing(
    named: Named,
    known: Known,
    settings: EngineSettings | None,
    step_time: StepTimeModel | None,
    *,
    in_steps: bool,
) -> str | None:
    """Say what a policy would need to know, or why the engine cannot carry it out; or ``None``.

    Two requests are prepared, none is served.
    """
    if in_steps and (names := [name for name in NOT_IN_STEPS if name in named.options]):
        return f"the model in steps decides {', '.join(names)} itself; leave it out"
    for name in named.own:
        if (needed := idle(named, name, in_steps=in_steps)) is not None:
            return f"{name} changes nothing without {needed}"
    workload = Workload(Instance([1, 1], [1, 1], 1000), np.zeros(2))
    lengths = known.of(workload.instance, 0)
    chosen = named.policy.settled(workload, lengths, in_steps=in_steps)
    if in_steps and known.kind == "learned" and chosen.scoring.kind == BOUND:
        return "learnt bounds are broken now and then, which the model in steps refuses"
    if in_steps:
        chosen = replace(chosen, side=replace(chosen.side, future=True))
    engine = settings or EngineSettings.for_budget(1000)
    try:
        PolicyReplay(workload, chosen, engine, step_time or STEP, lengths)
    except OptionError as error:
        return str(error)
    return None


def idle(named: Named, name: str, *, in_steps: bool) -> str | None:
    """Say what an option lacks to change anything under a policy; ``None`` where it changes it."""
    side = named.policy.side
    return replace(side, future=True).idle(name) if in_steps else side.idle(name)


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """Requests, an engine, and what is known: what every policy is given alike.

    Parameters
    ----------
    workloads, seeds
        A workload for each seed.
    known
        Of lengths.
    settings, step_time
        The engine; ``None`` in steps.
    """

    workloads: Sequence[Workload]
    seeds: Sequence[int]
    known: Known
    settings: EngineSettings | None = None
    step_time: StepTimeModel | None = None

    @property
    def engine(self) -> str:
        """``replay`` or ``steps``."""
        return "steps" if self.settings is None else "replay"

    @property
    def unit(self) -> str:
        """Of times."""
        return UNITS[self.engine]

    @cached_property
    def knowledge(self) -> list[Knowledge]:
        """What is known, for each seed."""
        pairs = zip(self.workloads, self.seeds, strict=True)
        return [self.known.of(workload.instance, seed) for workload, seed in pairs]

    @cached_property
    def points(self) -> Any:
        """Shares at which distributions are told."""
        return shares(sum(map(len, self.workloads)))

    def serve(self, named: Named) -> dict[str, Any]:
        """Serve the requests of every seed under a policy: its row of the document.

        ``error`` says why there are no figures: some policies never end.
        """
        row: dict[str, Any] = {
            "policy": named.text,
            "name": named.policy.name,
            "parameters": plain(named.policy.parameters),
            "side": named.policy.side.to_dict(),
            "chosen": None,
        }
        try:
            runs = [self._simulate(named, k) for k in range(len(self.seeds))]
        except (OptionError, MemoryError):
            raise
        except SortedfError as error:
            return row | {"carried_out": str(named.policy.side), "error": str(error)}
        found = [figures(run) | {"engine_steps": float(run.steps)} for run in runs]
        over_seeds = intervals(found, CONFIDENCE)
        return row | {
            "parameters": plain(runs[0].parameters),
            "chosen": None if named.policy.choose is None else self._chosen(runs),
            # As it was carried out: the model in steps has its own check and no watermark.
            "side": runs[0].side.to_dict(),
            "carried_out": str(runs[0].side),
            "known": str(runs[0].known),
            "error": None,
            "figures": self._named({name: of.mean for name, of in over_seeds.items()}),
            "intervals": None
            if len(runs) < 2
            else self._named({name: [of.low, of.high] for name, of in over_seeds.items()}),
            "by_seed": [self._named(one) for one in found],
            "distribution": self._named(at_shares(runs, self.points)),
            "attained": {
                name.replace("seconds", self.unit): shares
                for name, shares in attained(runs, targets(self.unit)).items()
            },
            "slowdown": slowdowns(runs, self.step_time),
            "_figures": found,
        }

    def _simulate(self, named: Named, k: int) -> Served:
        return simulate(
            self.workloads[k],
            named.policy,
            self.settings,
            self.step_time,
            known=self.knowledge[k],
            engine=self.engine,
        )

    def _chosen(self, runs: Sequence[Served]) -> list[dict[str, Any]]:
        """Say what ``auto`` chose on each seed, and why."""
        return [
            {
                "seed": seed,
                "policy": run.policy,
                "parameters": plain(run.parameters),
                "side": run.side.to_dict(),
                "carried_out": str(run.side),
                "reason": run.reason,
            }
            for seed, run in zip(self.seeds, runs, strict=True)
        ]

    def _named(self, found: Mapping[str, Any]) -> dict[str, Any]:
        return {with_unit(name, self.unit): value for name, value in found.items()}

    def document(
        self, rows: Sequence[Mapping[str, Any]], rate: float | None, saturated: float | None
    ) -> dict[str, Any]:
        """Give all rows, what they share, and UniBoost's steps, as one document.

        ``rate`` is what was asked for, ``saturated`` what a load of 1 is.
        """
        done = [row for row in rows if row["error"] is None]
        steps = ablation(
            {row["policy"]: row["_figures"] for row in done},
            {row["policy"]: row["name"] for row in done},
        )
        for step in steps:
            step["ratios"] = self._named(step["ratios"])
        return {
            "schema": "sortedf.simulation/1",
            "engine": self.engine,
            "unit": self.unit,
            "seeds": list(self.seeds),
            "confidence": CONFIDENCE,
            "known": self.known.text,
            "workload": self._workload()
            | {
                f"asked_requests_per_{self.unit[:-1]}": rate,
                f"saturated_requests_per_{self.unit[:-1]}": saturated,
            },
            "shares": self.points.tolist(),
            f"targets_{self.unit}": targets(self.unit).tolist(),
            "rows": [
                {key: value for key, value in row.items() if key != "_figures"} for row in rows
            ],
            "ablation": steps,
        }

    def _workload(self) -> dict[str, Any]:
        first = self.workloads[0]
        instance, span = first.instance, float(first.arrivals[-1] - first.arrivals[0])
        return {
            "name": first.name,
            "n": len(first),
            "kv_tokens": instance.kv_tokens if self.settings is None else self.settings.kv_tokens,
            "prompt_tokens": _spread(instance.prompt_tokens),
            "output_tokens": _spread(instance.output_tokens),
            f"span_{self.unit}": span,
            f"requests_per_{self.unit[:-1]}": (len(first) - 1) / span if span else None,
            "instance_sha256": instance.sha256,
        }


def with_unit(name: str, unit: str) -> str:
    """Give a figure's name with the unit in it, and no dot: ``p99_9_ttlt_seconds``."""
    one = unit.removesuffix("s")
    if name == "throughput":
        return f"output_tokens_per_{one}"
    if name == "requests_per_second":
        return f"requests_per_{one}"
    if name.endswith(("ttft", "ttlt", "tbt", "longest_wait")):
        name = f"{name}_{unit}"
    return name.replace("seconds_per_token", f"{unit}_per_token").replace("p99.9", "p99_9")


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Give parameters as JSON can have them: what is not finite in words."""
    return {
        name: value
        if value is None
        or isinstance(value, bool | int | str)
        or (isinstance(value, float) and isfinite(value))
        else str(value)
        for name, value in values.items()
    }


def _spread(tokens: Any) -> dict[str, float]:
    p50, p99 = np.percentile(tokens, [50, 99], method="inverted_cdf").tolist()
    return {"mean": float(tokens.mean()), "p50": p50, "p99": p99, "most": int(tokens.max())}

"""What the scheduler is told: by the engine's configuration, and by each request.

Both cross processes as plain data: the first in vLLM's ``additional_config``, under the name
``sortedf``; the second in ``SamplingParams.extra_args``, which is ``vllm_xargs`` in the body of an
HTTP request and holds no nested values.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from sortedf.errors import OptionError, whole_number
from sortedf.orders import Proxies
from sortedf.runner.waiting_keys import BOOSTED, ENGINE, FCFS, KEYS

if TYPE_CHECKING:
    from sortedf.engine.step_time import StepTimeModel
    from sortedf.serving.online_policy import OnlinePolicy

SECTION = "sortedf"

PLACE = "sortedf_place"
OUTPUT_TOKENS = "sortedf_output_tokens"
STEPS = "sortedf_steps"


_RANGES = {
    "gamma": "more than 0 (1 / seconds)",
    "hysteresis": "at least 0 (seconds)",
    "guard": "",
    "window": "",
    "every": "",
    "smoothing": "more than 0, at most 1",
    "least_gamma": "more than 0 (1 / seconds)",
    "most_gamma": "more than 0 (1 / seconds)",
}
"""Of boosts: names of their settings, and what a number of them must be."""


@dataclass(frozen=True, kw_only=True)
class SchedulerSettings:
    """How requests are admitted; the same for as long as the engine lives.

    Parameters
    ----------
    policy
        What waiting requests are ordered by, see :mod:`sortedf.runner.waiting_keys`. ``engine`` for
        all as vLLM does it, so that only the steps are recorded; ``fcfs`` for the same by arrival.
    lookahead
        How many requests that find no room end the admissions of a step; 1 is strict.
    room
        Whether room is kept for predicted outputs. Without, the order alone is handed to vLLM.
    output_tokens
        Predicted output of requests that bring no prediction, tokens; no more than their
        ``max_tokens``, and these when left out.
    threshold, short, long
        Of ``svf-1bit``, tokens: see :class:`sortedf.orders.Proxies`. By ``max_model_len`` when left
        out, as :func:`sortedf.orders.burst_proxies` has them.
    gamma, hysteresis, guard, window, every, smoothing, least_gamma, most_gamma
        Of ``uniboost`` and ``uniboost-guard``: see :mod:`sortedf.serving.policies`, whose defaults
        they have.
    step_time
        Of the same: what steps take, coefficients as :class:`sortedf.engine.StepTimeModel` has
        them, or the name of a file that holds them. Learnt as the engine goes when left out.
    steps
        File to which every step is recorded, see :mod:`sortedf.runner.step_recorder`.
    steps_by_request
        Whether a request may name the file: for engines that nobody else sends requests to.
    end_with_parent
        Whether the engine's process ends as soon as the one that started it has ended.
    """

    policy: str = "planned"
    lookahead: int = 1
    room: bool = True
    output_tokens: int | None = None
    threshold: float | None = None
    short: float | None = None
    long: float | None = None
    gamma: float | None = None
    hysteresis: float | None = None
    guard: int | None = None
    window: int | None = None
    every: int | None = None
    smoothing: float | None = None
    least_gamma: float | None = None
    most_gamma: float | None = None
    step_time: str | Mapping[str, float] | None = None
    steps: str | None = None
    steps_by_request: bool = False
    end_with_parent: bool = False

    def __post_init__(self) -> None:
        if self.policy not in (known := (*KEYS, *BOOSTED, FCFS, ENGINE)):
            raise OptionError(f"policy is {self.policy!r}; it must be one of {', '.join(known)}")
        whole_number("lookahead", self.lookahead, 1)
        if self.output_tokens is not None:
            whole_number("output_tokens", self.output_tokens, 1)
        for name in ("room", "steps_by_request", "end_with_parent"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name} is {getattr(self, name)!r}; it must be true or false")
        if self.steps is not None and not isinstance(self.steps, str):
            raise OptionError(f"steps is {self.steps!r}; it must be the name of a file")
        proxies = (self.threshold, self.short, self.long)
        if any(value is None for value in proxies) and any(value is not None for value in proxies):
            raise OptionError("threshold, short and long go together: give all three, or none")
        self._check_boost()

    @classmethod
    def of(cls, additional_config: Any) -> SchedulerSettings:
        """Read them from vLLM's ``additional_config``.

        Raises
        ------
        OptionError
            For names or values that are not known.
        """
        section = {}
        if isinstance(additional_config, Mapping):
            section = additional_config.get(SECTION, {})
        if not isinstance(section, Mapping):
            raise OptionError(f"additional_config: {SECTION} must be an object, not {section!r}")
        names = [field.name for field in fields(cls)]
        if unknown := [str(name) for name in section if name not in names]:
            raise OptionError(
                f"additional_config: {SECTION} knows no {', '.join(unknown)}; "
                f"it knows {', '.join(names)}"
            )
        return cls(**section)

    def _check_boost(self) -> None:
        given = self._of_boost()
        if (given or self.step_time is not None) and self.policy not in BOOSTED:
            names = ", ".join(given or ("step_time",))
            raise OptionError(f"{names}: the policy {self.policy} takes no such thing")
        for name, value in given.items():
            if name in ("guard", "window", "every"):
                whole_number(name, value, 1)
                continue
            least = 0 if name == "hysteresis" else sys.float_info.min
            most = 1.0 if name == "smoothing" else sys.float_info.max
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not least <= value <= most:
                raise OptionError(f"{name} is {value!r}; it must be a number of {_RANGES[name]}")
        if self.policy in BOOSTED:
            self.boosted()
            self.step_time_model()

    def _of_boost(self) -> dict[str, Any]:
        return {n: value for n in _RANGES if (value := getattr(self, n)) is not None}

    def boosted(self) -> OnlinePolicy:
        """Give the policy whose scores change with service."""
        from sortedf.serving.policies import policy

        return policy(self.policy, **self._of_boost())

    def step_time_model(self) -> StepTimeModel | None:
        """Give what steps take; ``None`` where it is to be learnt."""
        from sortedf.engine.step_time import model_of, read_step_time

        if self.step_time is None:
            return None
        if isinstance(self.step_time, str):
            return read_step_time(self.step_time)
        if not isinstance(self.step_time, Mapping):
            raise OptionError(f"step_time is {self.step_time!r}; it must be a file or coefficients")
        return model_of(self.step_time, "step_time")

    def proxies(self, max_model_len: int) -> Proxies:
        """Threshold and proxies of ``svf-1bit``."""
        if self.threshold is None or self.short is None or self.long is None:
            return Proxies.burst(max_model_len)
        return Proxies(self.threshold, self.short, self.long).checked()

    def additional_config(self) -> dict[str, Any]:
        """Give what vLLM is started with: only what is not the default."""
        given = asdict(self)
        defaults = asdict(type(self)())
        return {SECTION: {name: v for name, v in given.items() if v != defaults[name]}}


class Told(NamedTuple):
    """What a request brings along; ``None`` for what it does not.

    ``place`` in the plan, from 0; predicted output, tokens; the file for steps.
    """

    place: int | None = None
    output_tokens: int | None = None
    steps: str | None = None

    def extra_args(self) -> dict[str, Any]:
        """Give what the request's ``SamplingParams.extra_args`` must hold."""
        names = (PLACE, OUTPUT_TOKENS, STEPS)
        return {n: value for n, value in zip(names, self, strict=True) if value is not None}

    @classmethod
    def of(cls, extra_args: Mapping[str, Any] | None) -> tuple[Told, list[str]]:
        """Read it, and the names of those values that make no sense and are passed over."""
        if not extra_args:
            return cls(), []
        told: dict[str, Any] = {}
        bad = []
        for name, field, least in ((PLACE, "place", 0), (OUTPUT_TOKENS, "output_tokens", 1)):
            value = extra_args.get(name)
            if isinstance(value, float) and value.is_integer():
                value = int(value)  # JSON knows no difference
            if type(value) is int and least <= value < 1 << 53:
                told[field] = value
            elif value is not None:
                bad.append(name)
        steps = extra_args.get(STEPS)
        if isinstance(steps, str):
            told["steps"] = steps
        elif steps is not None:
            bad.append(STEPS)
        return cls(**told), bad

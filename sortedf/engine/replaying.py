"""The engine, replayed: when each request of a backlog is admitted, answers first, and is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.driver import Driver, can_jump, chosen_driver
from sortedf.engine.replay_input import (
    check_fit,
    cut_outputs,
    given_aborts,
    given_order,
    given_outputs,
    given_seconds,
    inverse,
    queue_order,
)
from sortedf.engine.settings import EngineSettings
from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import SortedfError
from sortedf.kernels.replay_events import replay_events
from sortedf.kernels.replay_log import Log, new_log
from sortedf.kernels.replay_state import (
    ADMITTED,
    ADMITTED_STEP,
    DONE,
    DONE_STEP,
    FIRST_STEP,
    FIRST_TOKEN,
    FORESEEN,
    LOST,
    PREEMPTIONS,
    Engine,
    new_engine,
)
from sortedf.kernels.replay_steps import (
    ALL_DONE,
    ENTRIES,
    EVICTIONS,
    LOGGED,
    Progress,
    new_progress,
    run_steps,
)
from sortedf.model import Instance

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]

_ENDLESS = "the engine never ends: requests of equal priority and stamp preempt each other"


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What the engine did with each request; arrays of shape (n,) by position in the instance.

    Times are in seconds on the clock of the arrivals, nan where something never came (after an
    abort). Step numbers count the steps in which anything ran, from 1 on; 0 where it never came.

    Parameters
    ----------
    arrivals
        When the engine was given each request.
    admitted
        The scheduling of the first admission; what vLLM calls ``scheduled_ts``.
    first_token, completion
        Ends of the steps that brought the first and the last token.
    admitted_step, first_step, completion_step
        The same in steps.
    preemptions
        How often each request was preempted.
    recomputed
        Tokens of each request whose KV was there and was computed again.
    steps
        Steps in which anything ran.
    log
        Every step, where it was asked for: see :class:`sortedf.kernels.replay_log.Log`.
    """

    arrivals: FloatArray
    admitted: FloatArray
    first_token: FloatArray
    completion: FloatArray
    admitted_step: IntArray
    first_step: IntArray
    completion_step: IntArray
    preemptions: IntArray
    recomputed: IntArray
    steps: int
    log: Log | None = None

    @property
    def ttft(self) -> FloatArray:
        """Seconds from arrival to first token, shape (n,)."""
        return self.first_token - self.arrivals

    @property
    def latency(self) -> FloatArray:
        """Seconds from arrival to last token, shape (n,)."""
        return self.completion - self.arrivals

    @property
    def makespan(self) -> float:
        """Seconds from the first arrival to the last token of all; nan when none came."""
        if np.isnan(self.completion).all():
            return float("nan")
        return float(np.nanmax(self.completion) - self.arrivals.min())


class Replay:
    """A backlog on an engine, ready to be replayed under any step-time model.

    Parameters
    ----------
    instance
        Prompts and outputs. Its KV budget and releases (steps) are not read: the settings say how
        large the cache is, ``arrivals`` when requests come.
    settings
        The engine.
    arrivals
        Seconds at which the engine gets each request, shape (n,); all 0 when left out.
    order
        The requests as they are handed over, a permutation, shape (n,): it decides between equal
        arrivals. By position when left out.
    priorities
        Shape (n,), integers, lower first; read by ``priority`` and ``planned``. A plan's starts
        make them.
    predicted
        Predicted output of each request, shape (n,), tokens; read by ``planned``. The outputs
        themselves when left out.
    stamps
        Arrival stamps, shape (n,), by which the engine orders requests of equal priority, and where
        these are equal too, by id (as text). When left out, no two are equal: they are stamped as
        they are handed over.
    aborts
        Seconds at which requests are aborted, shape (n,), inf for never, not before their arrival.

    Raises
    ------
    InfeasibleError
        When a request needs more blocks than the cache has.
    InvalidRequestError
        When a prompt does not leave room for an output under ``max_model_len``.
    OptionError
        When an argument is not what is said above.
    """

    def __init__(
        self,
        instance: Instance,
        settings: EngineSettings,
        *,
        arrivals: npt.ArrayLike | None = None,
        order: npt.ArrayLike | None = None,
        priorities: npt.ArrayLike | None = None,
        predicted: npt.ArrayLike | None = None,
        stamps: npt.ArrayLike | None = None,
        aborts: npt.ArrayLike | None = None,
    ) -> None:
        n = len(instance)
        self.instance = instance
        self.settings = settings
        self._rules = settings.rules()
        self._prompt = instance.prompt_tokens
        self._output = cut_outputs(instance, settings)
        check_fit(instance, self._output, settings)
        self.arrivals = given_seconds("arrivals", arrivals, n)
        handed = inverse(given_order(order, n))
        self._by_arrival = np.lexsort((handed, self.arrivals))
        self._aborts, self._by_abort = given_aborts(aborts, self.arrivals)
        self._rank, self._seniority = queue_order(
            settings.policy, instance.ids, self._by_arrival, priorities, stamps
        )
        block = settings.block_size
        self._shared = np.minimum(settings.shared_blocks, (self._prompt - 1) // block)
        self._foreseen = self._prompt + self._output - 1
        if predicted is not None:
            outputs = given_outputs(predicted, n, settings)
            # A prediction of more than the engine would give is of no use to it.
            self._foreseen = np.minimum(self._prompt + outputs - 1, self._rules.longest)

    def run(
        self, step_time: StepTimeModel, *, log: bool = False, by: Driver | str | None = None
    ) -> Replayed:
        """Replay the backlog.

        O(running) a step, O(log n) an event; docs/engine.md has the nanoseconds.

        Parameters
        ----------
        step_time
            How long steps take.
        log
            Whether to keep every step. The replay is then run twice, first to see how long it is.
        by
            ``steps``, or ``events``: stretches in which all running requests decode in closed form,
            with the same times up to rounding; not with prefix caching, a log, or the policy
            ``planned``. When left out, from event to event where that can be.

        Raises
        ------
        OptionError
            When this driver cannot do what is asked.
        """
        driver = chosen_driver(by, can_jump=not log and can_jump(self.settings))
        if driver == Driver.EVENTS:
            return self._replayed(self._events(step_time.seconds), None)
        engine, sizes = self._steps(step_time.seconds, new_log(0, 0, 0))
        if not log:
            return self._replayed(engine, None)
        filled = new_log(*sizes)
        engine, _ = self._steps(step_time.seconds, filled)
        return self._replayed(engine, filled)

    def _engine(self) -> Engine:
        engine = new_engine(
            self._rules,
            self._prompt,
            self._output,
            self._rank,
            self._seniority,
            self.arrivals,
            self._by_arrival,
            self._aborts,
            self._by_abort,
            self._shared,
        )
        engine.room[:, FORESEEN] = self._foreseen
        return engine

    def _steps(self, seconds: FloatArray, log: Log) -> tuple[Engine, tuple[int, int, int]]:
        engine = self._engine()
        progress = new_progress(len(engine.requests), float(self.arrivals.min()))
        self._go_on(engine, seconds, log, progress)
        numbers = progress.numbers
        sizes = numbers[LOGGED], numbers[ENTRIES], numbers[EVICTIONS]
        return engine, (int(sizes[0]), int(sizes[1]), int(sizes[2]))

    def _go_on(self, engine: Engine, seconds: FloatArray, log: Log, progress: Progress) -> None:
        """Run the engine from where it stands to the end."""
        if run_steps(self._rules, engine, seconds, log, progress, np.inf) != ALL_DONE:
            raise SortedfError(_ENDLESS)

    def _events(self, seconds: FloatArray) -> Engine:
        engine = self._engine()
        if not replay_events(self._rules, engine, seconds, float(self.arrivals.min())):
            raise SortedfError(_ENDLESS)
        return engine

    def _replayed(self, engine: Engine, log: Log | None) -> Replayed:
        times, requests = engine.times, engine.requests
        return Replayed(
            arrivals=self.arrivals,
            admitted=times[:, ADMITTED].copy(),
            first_token=times[:, FIRST_TOKEN].copy(),
            completion=times[:, DONE].copy(),
            admitted_step=requests[:, ADMITTED_STEP].copy(),
            first_step=requests[:, FIRST_STEP].copy(),
            completion_step=requests[:, DONE_STEP].copy(),
            preemptions=requests[:, PREEMPTIONS].copy(),
            recomputed=requests[:, LOST].copy(),
            steps=int(requests[:, DONE_STEP].max()),
            log=log,
        )


def replay(
    instance: Instance,
    settings: EngineSettings,
    step_time: StepTimeModel,
    *,
    arrivals: npt.ArrayLike | None = None,
    order: npt.ArrayLike | None = None,
    priorities: npt.ArrayLike | None = None,
    predicted: npt.ArrayLike | None = None,
    stamps: npt.ArrayLike | None = None,
    aborts: npt.ArrayLike | None = None,
    log: bool = False,
    by: Driver | str | None = None,
) -> Replayed:
    """Replay a backlog on the engine; see :class:`Replay` for the arguments."""
    prepared = Replay(
        instance,
        settings,
        arrivals=arrivals,
        order=order,
        priorities=priorities,
        predicted=predicted,
        stamps=stamps,
        aborts=aborts,
    )
    return prepared.run(step_time, log=log, by=by)

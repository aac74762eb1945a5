"""An instance that serves: its engine, replayed up to now, takes requests while it runs."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.replay_input import most_in_a_step
from sortedf.engine.settings import EngineSettings, Policy
from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import InfeasibleError, InvalidRequestError, OptionError, SortedfError
from sortedf.kernels.replay_live import (
    first_token_of_next,
    live_rows,
    open_engine,
    outstanding_tokens,
    send,
    withdraw,
)
from sortedf.kernels.replay_state import (
    DONE,
    FIRST_TOKEN,
    FREE,
    GONE,
    PREEMPTIONS,
    RUNNING,
    WAITING,
    Engine,
)
from sortedf.kernels.replay_steps import ENDLESS, Progress, new_log, new_progress, run_steps
from sortedf.routing.lengths import LengthModel

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

_FIRST_ROOM = 256


class LiveEngine:
    """One engine of several, replayed as far as the clock of all has come.

    Between two moments of interest the engine is driven by the compiled replay of single steps; it
    stands before its next ``schedule()`` call then, and takes requests at any time up to it.

    Parameters
    ----------
    settings
        The engine; first come, first served, without prefix caching.
    step_time
        How long its steps take.
    lengths
        What is foreseen of outputs while requests are served.

    Raises
    ------
    OptionError
        For settings that the replay ahead does not know.
    """

    def __init__(
        self, settings: EngineSettings, step_time: StepTimeModel, lengths: LengthModel
    ) -> None:
        if settings.policy != Policy.FCFS:
            raise OptionError(f"instances are first come, first served, not {settings.policy}")
        if settings.enable_prefix_caching:
            raise OptionError("instances are replayed without prefix caching; turn it off")
        self.settings = settings
        self.lengths = lengths
        self.n_sent = 0
        self.now = -math.inf
        self._seconds = step_time.seconds
        self._rules = settings.rules()
        self._log = new_log(0, 0, 0)
        self._all = open_engine(self._rules, _FIRST_ROOM)
        self._progress = new_progress(_FIRST_ROOM, -math.inf)
        self._predicted = np.ones(_FIRST_ROOM)
        self._engine = _leading(self._all, 0)

    def send(self, prompt: int, output: int, predicted: float, arrival: float) -> int:
        """Send a request at ``arrival`` (seconds), to where the engine has been advanced.

        ``output`` is what it will generate, ``predicted`` what is known of that. Gives its row.

        Raises
        ------
        InfeasibleError, InvalidRequestError
            As :func:`sortedf.engine.estimate_ttft`.
        """
        self.check(prompt, output)
        row = self.n_sent
        if row == len(self._predicted):
            self._grow()
        send(self._all, row, prompt, output, arrival)
        self._predicted[row] = predicted
        self.n_sent += 1
        self._engine = _leading(self._all, self.n_sent)
        if row == 0:
            self._progress.moments[:] = arrival
        return row

    def check(self, prompt: int, output: int) -> None:
        """Refuse what the engine could never finish; see :meth:`send`."""
        settings, needed = self.settings, prompt + output - 1
        if needed > settings.kv_tokens:
            raise InfeasibleError([(0, "", needed)], settings.kv_tokens, settings.block_size)
        longest = settings.max_model_len
        if longest is not None and prompt + output > longest:
            raise InvalidRequestError(
                f"a request of {prompt} prompt and {output} output tokens is longer than "
                f"max_model_len {longest}"
            )
        if needed > most_in_a_step(settings):
            raise InvalidRequestError(
                f"a request may need {needed} tokens in one step without chunked prefill; "
                f"max_num_batched_tokens is {settings.max_num_batched_tokens}"
            )

    def advance(self, until: float) -> None:
        """Drive the engine until its next call is at ``until`` (seconds) or later."""
        self.now = until
        if self.n_present == 0 and self.n_sent == self._arrived:
            return
        state = run_steps(
            self._rules, self._engine, self._seconds, self._log, self._progress, until
        )
        if state == ENDLESS:
            raise SortedfError("the engine never ends: the head of the queue never fits")

    def withdraw(self, row: int) -> bool:
        """Take a request back; what it has computed is lost. False if it has ended, or does now."""
        return bool(withdraw(self._rules, self._engine, row))

    def ttft(self, prompt: int, predicted: float) -> float:
        """Estimate the seconds from now to the first token of a request that is sent now.

        As :func:`sortedf.engine.estimate_ttft`, on this engine with what is foreseen of outputs.
        """
        output = min(max(round(predicted), 1), self._rules.longest - prompt + 1)
        seconds, _ = first_token_of_next(
            self._rules,
            self._engine,
            self._progress,
            self._seconds,
            self._predicted,
            self.lengths.longer,
            self.now,
            prompt,
            output,
        )
        if math.isnan(seconds):
            raise SortedfError("the engine never comes to this request")
        return float(seconds)

    def rows(self) -> tuple[IntArray, int]:
        """Give the live requests as :class:`sortedf.engine.EngineState` takes them, joined.

        Rows (prompt, output foreseen, sampled, computed), shape (n, 4): those that run, then those
        that wait; and how many run.
        """
        live, n_running = live_rows(self._rules, self._engine, self._predicted, self.lengths.longer)
        return live, int(n_running)

    @property
    def busy(self) -> float:
        """Seconds from now until the step under way has ended."""
        moments = self._progress.moments
        return max(float(moments[0]), float(moments[1]), self.now) - self.now

    @property
    def n_present(self) -> int:
        """Requests that run or wait."""
        return int(self._engine.counts[RUNNING] + self._engine.counts[WAITING])

    @property
    def n_waiting(self) -> int:
        """Requests that wait."""
        return int(self._engine.counts[WAITING])

    @property
    def free_share(self) -> float:
        """Share of the KV cache that is free."""
        return float(self._engine.counts[FREE]) / self.settings.usable_blocks

    @property
    def outstanding_tokens(self) -> int:
        """Tokens still to be computed of all who are there, as far as foreseen."""
        return int(
            outstanding_tokens(self._rules, self._engine, self._predicted, self.lengths.longer)
        )

    @property
    def first_token(self) -> FloatArray:
        """Seconds of the first tokens, nan where not yet, shape (sent,)."""
        return self._engine.times[:, FIRST_TOKEN]

    @property
    def completion(self) -> FloatArray:
        """Seconds of the last tokens, nan where not yet, shape (sent,)."""
        return self._engine.times[:, DONE]

    @property
    def preemptions(self) -> IntArray:
        """How often each was preempted, shape (sent,)."""
        return self._engine.requests[:, PREEMPTIONS]

    @property
    def gone(self) -> npt.NDArray[np.bool_]:
        """Who has left, shape (sent,)."""
        return self._engine.requests[:, GONE] == 1

    @property
    def _arrived(self) -> int:
        from sortedf.kernels.replay_state import ARRIVED

        return int(self._engine.counts[ARRIVED])

    def _grow(self) -> None:
        """Double the room."""
        old, n = self._all, self.n_sent
        larger = open_engine(self._rules, 2 * n)
        larger.requests[:n] = old.requests
        larger.room[:n] = old.room
        larger.times[:n] = old.times
        larger.lists[:, :n] = old.lists
        larger.counts[:] = old.counts
        self._all = larger
        progress = new_progress(2 * n, 0.0)
        progress.moments[:] = self._progress.moments
        progress.numbers[:] = self._progress.numbers
        progress.leaving[:n] = self._progress.leaving
        self._progress = progress
        self._predicted = np.concatenate([self._predicted, np.ones(n)])


def _leading(engine: Engine, n: int) -> Engine:
    """Give the engine of the requests that have been sent; its arrays are parts of the other's."""
    return engine._replace(
        requests=engine.requests[:n], room=engine.room[:n], times=engine.times[:n]
    )

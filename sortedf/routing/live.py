"""An instance that serves: its engine, replayed up to now, takes requests while it runs."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.replay_input import most_in_a_step
from sortedf.engine.settings import EngineSettings
from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import InfeasibleError, InvalidRequestError, OptionError, SortedfError
from sortedf.kernels.replay_ahead import LIVE_COMPUTED, LIVE_PROMPT
from sortedf.kernels.replay_live import (
    first_token_of_next,
    late_rows,
    live_rows,
    note_progress,
    open_engine,
    outstanding_tokens,
    send,
    withdraw,
    without_gone,
)
from sortedf.kernels.replay_log import new_log
from sortedf.kernels.replay_state import (
    ARRIVED,
    DONE,
    FIRST_TOKEN,
    FREE,
    GONE,
    PREEMPTIONS,
    RUNNING,
    WAITING,
    Engine,
)
from sortedf.kernels.replay_steps import ENDLESS, new_progress, run_steps
from sortedf.routing.instances import check_live
from sortedf.routing.lengths import LengthModel

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

_ROOM = 256


class Outcome(NamedTuple):
    """What became of a request: seconds, nan for what never came, and its preemptions."""

    first_token: float
    completion: float
    preemptions: int


class LiveEngine:
    """One engine of several, replayed as far as the clock of all has come.

    Between two moments of interest the engine is driven by the compiled replay of single steps; it
    stands before its next ``schedule()`` call then, and takes requests at any time up to it. Its
    size follows the requests that are there, not those that have been.

    Parameters
    ----------
    settings
        The engine; first come, first served, without prefix caching.
    step_time
        How long its steps take.
    lengths
        What is foreseen of outputs while requests are served; can be exchanged.
    record
        Whether to keep what became of requests, for :meth:`outcome`.

    Raises
    ------
    OptionError
        For settings that the replay ahead does not know.
    """

    def __init__(
        self,
        settings: EngineSettings,
        step_time: StepTimeModel,
        lengths: LengthModel,
        *,
        record: bool = True,
    ) -> None:
        check_live(settings)
        self.settings = settings
        self.lengths = lengths
        self.now = -math.inf
        self._seconds = step_time.seconds
        self._rules = settings.rules()
        self._log = new_log(0, 0, 0)
        self._all = open_engine(self._rules, _ROOM)
        self._progress = new_progress(_ROOM, -math.inf)
        self._predicted, self._deadline = np.ones(_ROOM), np.full(_ROOM, np.inf)
        self._ticket = np.zeros(_ROOM, np.int64)
        self._rows = self._sent = 0
        self._engine = _leading(self._all, 0)
        self._past: dict[int, Outcome] | None = {} if record else None

    def send(
        self,
        prompt: int,
        output: int,
        predicted: float,
        arrival: float,
        deadline: float = math.inf,
    ) -> int:
        """Send a request at ``arrival`` (seconds), to where the engine has been advanced.

        ``output`` is what it will generate, ``predicted`` what is known of that, ``deadline`` the
        second by which its first token counts. Gives its ticket: 0, 1, ... as they are sent.

        Raises
        ------
        InfeasibleError, InvalidRequestError
            As :func:`sortedf.engine.estimate_ttft`.
        """
        self.check(prompt, output)
        row = self._rows
        if row == len(self._predicted):
            self._make_room()
            row = self._rows
        send(self._all, row, prompt, output, arrival)
        self._predicted[row], self._deadline[row] = predicted, deadline
        self._ticket[row] = self._sent
        self._rows, self._sent = row + 1, self._sent + 1
        self._engine = _leading(self._all, self._rows)
        if self._sent == 1:
            self._progress.moments[:] = arrival
        self.advance(arrival)  # lets it into the queue
        return self._sent - 1

    def check(
        self, prompt: int, output: int, *, index: int = 0, name: str = "", owner: str = ""
    ) -> None:
        """Refuse what the engine could never finish; see :meth:`send`.

        ``index`` and ``name`` of the request, and ``owner``, the instance, are for the error.
        """
        settings, needed = self.settings, prompt + output - 1
        if needed > settings.kv_tokens:
            raise InfeasibleError(
                [(index, name, needed)], settings.kv_tokens, settings.block_size, owner
            )
        what, of = f"request {name!r}" if name else "a request", f" of {owner}" if owner else ""
        longest = settings.max_model_len
        if longest is not None and prompt + output > longest:
            raise InvalidRequestError(
                f"{what} of {prompt} prompt and {output} output tokens is longer than "
                f"max_model_len{of}, {longest}",
                index,
            )
        if needed > most_in_a_step(settings):
            raise InvalidRequestError(
                f"{what} may need {needed} tokens in one step without chunked prefill; "
                f"max_num_batched_tokens{of} is {settings.max_num_batched_tokens}",
                index,
            )

    def advance(self, until: float) -> None:
        """Drive the engine until its next call is at ``until`` (seconds) or later."""
        self.now = until
        if self.n_present == 0 and self._engine.counts[ARRIVED] == self._rows:
            return
        state = run_steps(
            self._rules, self._engine, self._seconds, self._log, self._progress, until
        )
        if state == ENDLESS:
            raise SortedfError("the engine never ends: the head of the queue never fits")

    def withdraw(self, ticket: int) -> bool:
        """Take a request back; what it has computed is lost. False if it has ended, or does now."""
        row = self._row(ticket)
        return row >= 0 and bool(withdraw(self._rules, self._engine, row))

    def note_progress(self, ticket: int, sampled: int) -> bool:
        """Let a request have so many output tokens, as was seen on the real engine; see the kernel.

        It must be less than the output that it was sent with.
        """
        row = self._row(ticket)
        return row >= 0 and bool(note_progress(self._rules, self._engine, row, sampled))

    def late(self) -> list[int]:
        """Give the tickets of those that wait for their first token beyond their deadline."""
        if self.n_waiting == 0:
            return []
        rows = late_rows(self._engine, self._deadline, self.now)
        return [int(ticket) for ticket in self._ticket[rows]]

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

    def live(self) -> tuple[IntArray, int]:
        """Give the live requests as :class:`sortedf.engine.EngineState` takes them, joined.

        Rows (prompt, output foreseen, sampled, computed), shape (n, 4): those that run, then those
        that wait; and how many run.
        """
        rows, n_running = live_rows(self._rules, self._engine, self._predicted, self.lengths.longer)
        return rows, int(n_running)

    def outcome(self, ticket: int) -> Outcome:
        """Tell what became of a request so far."""
        if self._past is not None and ticket in self._past:
            return self._past[ticket]
        row = self._row(ticket)
        if row < 0:
            raise OptionError(f"nothing is kept of request {ticket}")
        return self._outcome(row)

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
    def prompt_tokens_ahead(self) -> int:
        """Prompt tokens of those who are there that are still to be computed."""
        rows, _ = self.live()
        return int(np.maximum(rows[:, LIVE_PROMPT] - rows[:, LIVE_COMPUTED], 0).sum())

    def _row(self, ticket: int) -> int:
        """Row of a request; -1 where it is no longer kept. O(log n)."""
        row = int(np.searchsorted(self._ticket[: self._rows], ticket))
        return row if row < self._rows and self._ticket[row] == ticket else -1

    def _outcome(self, row: int) -> Outcome:
        times, requests = self._engine.times[row], self._engine.requests[row]
        return Outcome(float(times[FIRST_TOKEN]), float(times[DONE]), int(requests[PREEMPTIONS]))

    def _make_room(self) -> None:
        """Leave out those who are gone, so that at least half of the room is free."""
        gone = self._engine.requests[:, GONE] == 1
        if self._past is not None:
            for row in np.flatnonzero(gone):
                self._past[int(self._ticket[row])] = self._outcome(int(row))
        kept = np.flatnonzero(~gone)
        room = max(_ROOM, 1 << int(2 * len(kept)).bit_length())
        self._all = without_gone(self._rules, self._engine, self._progress, room)
        progress, n = new_progress(room, 0.0), len(kept)
        progress.moments[:] = self._progress.moments
        progress.numbers[:] = self._progress.numbers
        progress.leaving[:n] = self._progress.leaving[:n]
        self._progress = progress
        for name, empty in (("_predicted", 1.0), ("_deadline", np.inf), ("_ticket", 0)):
            old = getattr(self, name)
            fresh = np.full(room, empty, old.dtype)
            fresh[:n] = old[kept]
            setattr(self, name, fresh)
        self._rows = n
        self._engine = _leading(self._all, n)


def _leading(engine: Engine, n: int) -> Engine:
    """Give the engine of the requests that have been sent; its arrays are parts of the other's."""
    return engine._replace(
        requests=engine.requests[:n], room=engine.room[:n], times=engine.times[:n]
    )

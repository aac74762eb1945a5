"""When a request that is sent to a live engine now will answer first: the replay ahead."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sortedf.engine.replay_input import most_in_a_step
from sortedf.engine.settings import EngineSettings, Policy
from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import InfeasibleError, InvalidRequestError, OptionError, SortedfError
from sortedf.kernels.replay_ahead import LIVE_COLUMNS, first_come, first_token_ahead
from sortedf.model import Request


class EngineState:
    """A live engine, as its next ``schedule()`` call will find it.

    Parameters
    ----------
    settings
        The engine; first come, first served. Content that prefix caching may find is not foreseen.
    step_time
        How long its steps take.
    running
        Requests that run, in the order of admission: rows (prompt, output, sampled, computed) of
        tokens, shape (r, 4). The output is what is predicted in all, at least one more than what is
        sampled. Computed is what has its KV, that of the step under way included. Asynchronous:
        a request whose last token is in the step under way still runs, with all its outputs
        sampled and all but the last of its tokens computed.
    waiting
        Requests that wait, in the order of the queue: rows (prompt, output, sampled), shape (w, 3);
        some are sampled of those that were preempted.
    busy
        Seconds until the step under way has ended.

    Raises
    ------
    OptionError
        When the rows are not what is said above, or the requests hold more blocks than there are.
    """

    def __init__(
        self,
        settings: EngineSettings,
        step_time: StepTimeModel,
        running: npt.ArrayLike = (),
        waiting: npt.ArrayLike = (),
        *,
        busy: float = 0.0,
    ) -> None:
        if settings.policy != Policy.FCFS:
            raise OptionError(f"the replay ahead knows the policy fcfs, not {settings.policy}")
        if not (math.isfinite(busy) and busy >= 0):
            raise OptionError(f"busy is {busy!r}; it must be a number of seconds, 0 or more")
        ahead = _rows("running", running, LIVE_COLUMNS)
        behind = _rows("waiting", waiting, LIVE_COLUMNS - 1)
        self.settings = settings
        self.busy = float(busy)
        self.n_running = len(ahead)
        self._live = np.zeros((len(ahead) + len(behind), LIVE_COLUMNS), np.int64)
        self._live[: len(ahead)] = ahead
        self._live[len(ahead) :, :-1] = behind
        self._rules = first_come(settings.rules())
        self._seconds = step_time.seconds
        self._check()

    def _check(self) -> None:
        prompt, output, sampled, computed = self._live.T
        last = prompt + output - 1
        ends = self.settings.async_scheduling & (sampled == output) & (computed == last)
        if not ((prompt > 0) & (sampled >= 0) & ((sampled < output) | ends)).all():
            raise OptionError("a request must have a prompt and be sampled less than its output")
        runs = np.arange(len(prompt)) < self.n_running
        if not ((computed > 0) & ((computed < prompt + sampled) | ends))[runs].all():
            raise OptionError("a running request must have computed some of its tokens, not all")
        size = self.settings.block_size
        if (
            needed := int(((last + size - 1) // size).max(initial=0))
        ) > self.settings.usable_blocks:
            raise OptionError(
                f"a request needs {needed} blocks; the engine has {self.settings.usable_blocks}"
            )
        if last.max(initial=0) > most_in_a_step(self.settings):
            raise OptionError(
                f"a request may need {last.max()} tokens in one step without chunked prefill; "
                f"max_num_batched_tokens is {self.settings.max_num_batched_tokens}"
            )
        held = int(((computed + size - 1) // size)[runs].sum())
        if held > self.settings.usable_blocks or self.n_running > self.settings.max_num_seqs:
            raise OptionError(
                f"{self.n_running} running requests hold {held} blocks; the engine has "
                f"{self.settings.max_num_seqs} seats and {self.settings.usable_blocks} blocks"
            )

    def first_token(self, request: Request) -> tuple[float, int]:
        """Give the seconds of :func:`estimate_ttft`, and how many are preempted until then."""
        settings = self.settings
        longest = settings.max_model_len
        if longest is not None and request.prompt_tokens >= longest:
            raise InvalidRequestError(
                f"request {request.id!r} has {request.prompt_tokens} prompt tokens, which leaves "
                f"no room for an output under max_model_len {longest}"
            )
        needed = request.prompt_tokens + request.output_tokens - 1
        if needed > settings.kv_tokens:
            rows = [(0, request.id, needed)]
            raise InfeasibleError(rows, settings.kv_tokens, settings.block_size)
        if needed > most_in_a_step(settings):
            raise InvalidRequestError(
                f"request {request.id!r} may need {needed} tokens in one step without chunked "
                f"prefill; max_num_batched_tokens is {settings.max_num_batched_tokens}"
            )
        seconds, preemptions = first_token_ahead(
            self._rules,
            self._seconds,
            self._live,
            self.n_running,
            self.busy,
            request.prompt_tokens,
            request.output_tokens,
        )
        if math.isnan(seconds):
            raise SortedfError("the engine never comes to this request")
        return seconds, preemptions


def estimate_ttft(state: EngineState, request: Request) -> float:
    """Estimate the seconds from now to the first token of a request that is sent now.

    The engine is replayed ahead from event to event until the request, behind all that wait, has
    its first token. What is sent later stays behind it.

    Raises
    ------
    InfeasibleError
        When the request needs more blocks than the cache has.
    InvalidRequestError
        When its prompt leaves no room for an output under ``max_model_len``, or is too long for a
        step without chunked prefill.
    """
    return state.first_token(request)[0]


def _rows(name: str, rows: npt.ArrayLike, columns: int) -> npt.NDArray[np.int64]:
    array = np.asarray(rows)
    if array.size == 0:
        return np.empty((0, columns), np.int64)
    if array.ndim != 2 or array.shape[1] != columns or array.dtype.kind not in "iu":
        raise OptionError(f"{name} must be rows of {columns} integers")
    return array.astype(np.int64)

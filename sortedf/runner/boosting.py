"""UniBoost as a part of the planned scheduler: who is evicted for whom, and when gamma is learnt.

Before vLLM chooses the requests of a step, the head of the queue may evict running requests that
stand at a threshold and are of worse score by more than the hysteresis; then those that come to a
threshold without room for the next stretch are evicted, and nobody is admitted in that step.
Whoever is evicted is computed again, as vLLM preempts, and not admitted in the same step:
admissions end where it is next. The rules are those of the policies ``uniboost`` and
``uniboost-guard`` of :mod:`sortedf.serving`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sortedf.runner.limits import Limits

if TYPE_CHECKING:
    from sortedf.runner.boost_room import BoostRoom

COMPUTED = attrgetter("num_computed_tokens")

COMPLETED = ("STOP", "LENGTH")
"""Names of vLLM's reasons for an end that is no abort and no error."""


class Boosting:
    """Goes before :class:`sortedf.runner.vllm_scheduler.PlannedScheduler` among the bases.

    Notes
    -----
    ``clock`` is that of the requests' arrivals: seconds since the epoch, as vLLM has them.
    """

    clock: Callable[[], float] = staticmethod(time.time)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        self._evicted: set[str] = set()  # by this call
        self._due = False  # gamma is to be learnt anew
        super().__init__(*args, **kwargs)

    def _make_room(self: Any, limits: Limits) -> BoostRoom:
        # What other policies do without is loaded here: the compiled engine's definitions.
        from sortedf.runner.boost import Boost
        from sortedf.runner.boost_room import BoostRoom
        from sortedf.runner.learnt_seconds import LearntSeconds

        model = self._told.step_time_model()
        self._learnt = LearntSeconds() if model is None else None
        seconds = self._learnt.seconds if self._learnt else model.seconds
        self._boost = Boost(self._told.boosted(), limits.token_budget, seconds)
        return BoostRoom(
            limits,
            self._boost,
            let_go=self._let_go,
            blocks=self._blocks,
        )

    def _rank(self: Any, request: Any, told: Any) -> None:
        self._boost.arrive(request, request.num_prompt_tokens, request.arrival_time)

    def _prepare(self: Any) -> None:
        self._evicted.clear()
        if self.pause_state.value:  # nothing runs, or nothing new
            return
        if self.waiting and self.running:
            self._displace()
        evicted = len(self._evicted)
        self._begin()
        if len(self._evicted) > evicted:
            self.waiting.closed = True  # who came to a threshold was let go for want of room

    def _displace(self: Any) -> None:
        """Evict running requests of worse score for the head of the queue, if it then fits."""
        head = self.waiting.peek_request()
        if self._is_blocked_waiting_status(head.status):
            return
        limit = head.standing.score + self._boost.hysteresis
        going = self._room.displaceable(limit)
        if not going:
            return
        wanted = sum(self._room.wanted(request, self._cap) for request in self._room.held)
        budget = self.max_num_scheduled_tokens - wanted
        if budget <= 0 or self._fits(head, budget):
            return
        tokens = min(head.num_tokens, self._cap, budget)
        slots = head.num_tokens if self._gate else tokens
        blocks_of = self._room.limits.blocks_of
        needed = blocks_of(slots)
        if len(going) < len(self.running):
            needed += self._watermark
        free = self.kv_cache_manager.block_pool.get_num_free_blocks()
        foreseen = min(
            head.num_prompt_tokens + head.standing.threshold - 1, self._room.limits.longest
        )
        if not self._room.could_make_room(going, foreseen, needed, free):
            return
        for request in going:
            budget += self._room.wanted(request, self._cap)
            self._let_go(request)
            if self._fits(head, budget):
                return

    def _fits(self: Any, request: Any, budget: int) -> bool:
        """Whether a waiting request would be admitted with so many tokens left."""
        if len(self.running) >= self.max_num_active_reqs:
            return False
        return self._course_if_it_fits(request, budget, True) is not None

    def _let_go(self: Any, request: Any) -> None:
        """Evict a running request."""
        self._evicted.add(request.request_id)
        self.running.remove(request)
        self._preempt_request(
            request, time.monotonic(), drop_stale_output=self.requires_kv_delivery
        )

    def _handle_blocked_waiting_request(self: Any, request: Any) -> bool:
        if request.request_id in self._evicted:
            self.waiting.closed = True
            return False
        planned: Any = super()
        return bool(planned._handle_blocked_waiting_request(request))

    def _update_after_schedule(self: Any, scheduler_output: Any) -> None:
        planned: Any = super()
        planned._update_after_schedule(scheduler_output)
        self._room.served(map(COMPUTED, self._room.held))
        if self._learnt is not None:
            self._learnt.scheduled(time.monotonic(), scheduler_output.total_num_scheduled_tokens)

    def _free_request(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if request.get_finished_reason().name in COMPLETED:
            self._due |= self._boost.end(self.clock() - request.arrival_time)
        planned: Any = super()
        return planned._free_request(request, *args, **kwargs)

    def update_from_output(self: Any, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take up the tokens of a step; learn gamma from the requests that it ends."""
        planned: Any = super()
        self._due = False
        outputs = planned.update_from_output(scheduler_output, model_runner_output)
        if self._learnt is not None:
            self._learnt.ended(time.monotonic(), scheduler_output.total_num_scheduled_tokens)
        if self._due:
            self._boost.learn()
            self._boost.rescore(self.requests.values())
            self._room.rescored()
            self.waiting.reorder()
            self.kv_holding_waiting.reorder()
        return outputs

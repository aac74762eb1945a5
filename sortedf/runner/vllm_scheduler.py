"""The scheduler for vLLM that keeps to a plan. The only module that imports vLLM's scheduler.

    LLM(..., scheduler_cls="sortedf.runner.vllm_scheduler.PlannedScheduler")
    vllm serve ... --scheduler-cls sortedf.runner.vllm_scheduler.PlannedScheduler

The one name serves all policies, and synchronous and asynchronous scheduling. What it is told, by
the engine's ``additional_config`` and by each request's ``extra_args``, stands in
:mod:`sortedf.runner.scheduler_settings`; docs/scheduler.md has the rules.

It decides two things, the order of the waiting requests and whether there is room for the next one;
all else, and what of a request cannot be admitted yet (a grammar that is being compiled, KV on its
way from elsewhere, too many adapters), is vLLM's. vLLM asks about each request before it admits it
(``_handle_blocked_waiting_request``) and says when blocks are given back
(``_free_request_blocks``): these two are overridden, and the queues are replaced.

To hand over a whole backlog before the first request starts, pause the engine:
``llm.sleep(level=0, mode="keep")``, add the requests, ``llm.wake_up(tags=["scheduling"])``.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import vllm
from vllm.logger import init_logger

from sortedf.errors import EngineError
from sortedf.runner.boosting import Boosting
from sortedf.runner.key_queue import KeyQueue
from sortedf.runner.limits import Course, Group, Limits
from sortedf.runner.process_ends import end_with_parent
from sortedf.runner.recording import Recording
from sortedf.runner.room import Room
from sortedf.runner.scheduler_settings import SchedulerSettings, Told
from sortedf.runner.vllm_interface import TESTED, check_interface
from sortedf.runner.waiting_keys import BOOSTED, ENGINE, FCFS, KEYS, Waiting, foreseen_output

logger = init_logger("vllm.sortedf")

try:
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.request_queue import SchedulingPolicy, create_request_queue
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.request import RequestStatus
except ImportError as error:
    raise EngineError(
        f"vLLM {vllm.__version__} has not the scheduler that sortedf extends ({error}); "
        f"tested versions: {', '.join(TESTED)}"
    ) from None

check_interface(Scheduler, vllm.__version__, logger.warning)


class PlannedScheduler(Recording, Scheduler):  # type: ignore[misc]
    """vLLM's scheduler, with the plan's order and room kept for predicted outputs.

    Made is, of the classes below, the one for the policy, and for the way in which vLLM is
    configured to schedule.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> PlannedScheduler:
        """Choose by the configuration."""
        config = kwargs["vllm_config"] if "vllm_config" in kwargs else args[0]
        if cls is PlannedScheduler:
            boosted = SchedulerSettings.of(config.additional_config).policy in BOOSTED
            asynchronous = bool(config.scheduler_config.async_scheduling)
            cls = _KINDS[boosted, asynchronous]
        scheduler: PlannedScheduler = super().__new__(cls)
        return scheduler

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._told = SchedulerSettings.of(self.vllm_config.additional_config)
        if self._told.end_with_parent:
            end_with_parent()
        self._proxies = self._told.proxies(self.max_model_len)
        self._orders = self._told.policy not in (ENGINE, FCFS)
        if self._told.policy == FCFS:
            self.policy = SchedulingPolicy.FCFS
            self.waiting = create_request_queue(self.policy)
            self.kv_holding_waiting = create_request_queue(self.policy)
        if self._orders:
            # The key is put into Request.priority: by it vLLM chooses the victim.
            self.policy = SchedulingPolicy.PRIORITY
            self.waiting = KeyQueue()
            self.kv_holding_waiting = KeyQueue()
        if self._told.steps is not None:
            self._recorder.record(self._told.steps)
        try:
            self._room = self._make_room(self._limits())
            self._watermark: int = self.kv_cache_manager.watermark_blocks
            self._gate: bool = self.scheduler_config.scheduler_reserve_full_isl
            self._chunked: bool = self.scheduler_config.enable_chunked_prefill
            self._adaptive: bool = self.adaptive_long_prefill_threshold
        except AttributeError as error:
            raise EngineError(
                f"the scheduler of vLLM {vllm.__version__} lacks what sortedf relies on ({error}); "
                f"tested versions: {', '.join(TESTED)}"
            ) from None
        # Only what adds one token a step is foreseen without looking.
        self._jumps = self.num_spec_tokens > 0 or self.connector is not None
        self._call = 0
        self._cap = self._budget = 0  # tokens: of one request, and left, in this call
        self._begun = False  # the ledger is brought up to this call
        self._misfits = 0
        self._candidate: tuple[Any, Course] | None = None

    def _limits(self) -> Limits:
        managers = self.kv_cache_manager.coordinator.single_type_managers
        groups = [Group(m.block_size, m.max_admission_blocks_per_request) for m in managers]
        return Limits(
            blocks=self.kv_cache_manager.block_pool.num_gpu_blocks - 1,
            groups=tuple(groups),
            token_budget=self.max_num_scheduled_tokens,
            chunk_cap=self.scheduler_config.long_prefill_token_threshold,
            max_model_len=self.max_model_len,
            asynchronous=isinstance(self, AsyncScheduler),
        )

    def add_request(self, request: Any) -> None:
        """Take a request in: give it its key."""
        if request.request_id not in self.requests:  # else the next part of one that streams
            told, bad = Told.of(getattr(request.sampling_params, "extra_args", None))
            for name in bad:
                logger.warning("request %s: %s makes no sense: left out", request.request_id, name)
            self._rank(request, told)
            if told.steps is not None and self._told.steps_by_request:
                self._recorder.record(told.steps)
        super().add_request(request)

    def _make_room(self, limits: Limits) -> Room:
        return Room(limits)

    def _rank(self, request: Any, told: Told) -> None:
        """Say what a request's output is taken to be, and what orders it."""
        predicted = told.output_tokens
        if predicted is None:
            predicted = min(self._told.output_tokens or request.max_tokens, request.max_tokens)
        policy, place = self._told.policy, told.place
        waiting = Waiting(request.num_prompt_tokens, predicted, place, request.priority)
        request.predicted_tokens = foreseen_output(policy, predicted, self._proxies)
        if self._orders:
            request.priority = KEYS[policy](waiting, self._proxies)

    def _choose(self, *args: Any, **kwargs: Any) -> Any:
        self._call += 1
        self._begun = False
        self._misfits = 0
        self._candidate = None
        self._cap = self._chunk_cap()
        try:
            self._prepare()
            return super()._choose(*args, **kwargs)
        finally:
            if self._orders:
                self.waiting.closed = False

    def _prepare(self) -> None:
        """Do what a policy does before vLLM chooses."""

    def _chunk_cap(self) -> int:
        """Most tokens that one request may have in this call, as vLLM reckons it."""
        cap: int = self.scheduler_config.long_prefill_token_threshold
        budget: int = self.max_num_scheduled_tokens
        present = sum(self.get_request_counts())
        if cap == 0 or present <= 1:
            return budget
        if self._adaptive:
            cap = max(cap, self.scheduler_config.max_num_batched_tokens // present)
        return min(cap, budget)

    def _handle_blocked_waiting_request(self, request: Any) -> bool:
        """Whether vLLM may try to admit the first of those that wait; if not it is passed over."""
        if not super()._handle_blocked_waiting_request(request):
            return False
        if not self._orders or not self._told.room:
            return True
        self._settle()
        if not self._begun:
            self._begin()
        course = self._course_if_it_fits(request, self._budget, self._told.lookahead > 1)
        if course is not None:
            self._candidate = request, course
            return True
        self._misfits += 1
        self.waiting.closed = self._misfits >= self._told.lookahead
        return False

    def _course_if_it_fits(self, request: Any, budget: int, now: bool) -> Course | None:
        """Foresee the course of a waiting request; none if there is no room for it.

        Parameters
        ----------
        budget
            Tokens left for it in this call.
        now
            Whether it must fit by vLLM's own rules as well, which vLLM itself asks at lookahead 1.
        """
        known = request.num_tokens
        # What has been computed already, where it holds blocks, or can be found by its content.
        found, held, revived = request.num_computed_tokens, 0, 0
        caching = self.kv_cache_manager.enable_caching
        if found == 0 and caching and (now or known > min(self._cap, budget)):
            found, held, revived = self._find(request)
        tokens = min(known - found, self._cap, budget)
        course = self._room.course(
            request.num_prompt_tokens,
            request.predicted_tokens,
            known,
            self._call,
            known - found - tokens,
        )
        if self._holds_kv_blocks(request) or not self.running:
            return course  # it can be in nobody's way, or would be in its own
        if now:
            if not self._chunked and min(known - found, self._cap) > budget:
                return None
            slots = known if self._gate else found + tokens
            free = self.kv_cache_manager.block_pool.get_num_free_blocks() - revived
            if self._room.limits.blocks_of(slots) - held > free - self._watermark:
                return None
        return course if self._room.has_room(course, self._call, self._blocks()) else None

    def _begin(self) -> None:
        """Bring the ledger up to this call: those that run have their tokens by now."""
        self._begun = True
        computed = map(attrgetter("num_computed_tokens"), self._room.held)
        given = self._room.begin(self._call, computed, self._cap)
        self._budget = max(self.max_num_scheduled_tokens - given, 1)

    def _blocks(self) -> int:
        """Blocks for those that run: not for those that wait and hold some all the same."""
        blocks: int = self._room.limits.blocks
        if not self.kv_holding_waiting:
            return blocks
        for request in self.kv_holding_waiting:
            if request not in self._room:
                blocks -= self._room.limits.blocks_of(request.num_computed_tokens)
        return blocks

    def _find(self, request: Any) -> tuple[int, int, int]:
        """Tokens found by their content, their blocks, and how many of these nobody holds."""
        blocks, tokens, *_ = self.kv_cache_manager.get_computed_blocks(request)
        flat = [block for group in blocks.blocks for block in group]
        return tokens, len(flat), sum(block.ref_cnt == 0 for block in flat)

    def _settle(self) -> None:
        """Count in the request that was let through last, if vLLM has admitted it."""
        if self._candidate is None:
            return
        (request, course), self._candidate = self._candidate, None
        if request.status != RequestStatus.RUNNING:
            return
        known = request.num_tokens
        left = known - request.num_computed_tokens
        tokens = min(left, self._cap, self._budget)
        self._budget -= tokens
        prompt = request.num_prompt_tokens
        last = min(prompt + request.max_tokens, self.max_model_len) - 1
        self._room.hold(request, course, prompt=prompt, last=last, known=known, left=left - tokens)

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        self._settle()
        passed_over = len(self.running) - len(scheduler_output.num_scheduled_tokens)
        if (
            self._jumps
            or passed_over != self._room.ending(self._call - 1)
            or len(self.running) != len(self._room.held)
        ):
            self._room.disturb()
        super()._update_after_schedule(scheduler_output)

    def _free_request_blocks(self, request: Any) -> None:
        self._room.release(request)
        super()._free_request_blocks(request)


class AsyncPlannedScheduler(PlannedScheduler, AsyncScheduler):  # type: ignore[misc]
    """The same where one step is scheduled while another runs."""


class BoostedScheduler(Boosting, PlannedScheduler):
    """The same by scores that change with service."""


class AsyncBoostedScheduler(Boosting, AsyncPlannedScheduler):
    """The same by scores that change with service, asynchronously."""


_KINDS = {
    (False, False): PlannedScheduler,
    (False, True): AsyncPlannedScheduler,
    (True, False): BoostedScheduler,
    (True, True): AsyncBoostedScheduler,
}

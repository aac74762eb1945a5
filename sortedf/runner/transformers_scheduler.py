"""The scheduler for transformers' continuous batching that keeps to a plan.

A subclass of the library's first come, first served: which of the waiting requests it may look at
is decided here, by the rules that :mod:`sortedf.runner.room` has; all else is the library's. Those
that are handed to it fit, so that it admits them, all and in their order. The only module that
imports the library's scheduler.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any

from transformers.generation.continuous_batching.requests import RequestStatus
from transformers.generation.continuous_batching.scheduler import SCHEDULER_MAPPING, FIFOScheduler

from sortedf.runner.engines import Job
from sortedf.runner.limits import Group, Limits
from sortedf.runner.room import Room

NAME = "sortedf"
"""The ``scheduler_type`` of the library's configuration that stands for this one."""


class PlannedScheduler(FIFOScheduler):
    """The library's scheduler, with the plan's order and room kept for predicted outputs.

    Before requests are added, :meth:`begin` has to say what is planned for them.
    """

    def begin(self, jobs: Mapping[str, Job], max_model_len: int | None) -> None:
        """Take the jobs of an execution, by the ids that their requests will have."""
        cache = self.cache
        page = _allocator(cache).tokens_per_page
        tokens = cache.num_blocks * page
        self._jobs = jobs
        self._longest = min(tokens + 1, max_model_len or tokens + 1)
        self._room = Room(
            Limits(
                blocks=cache.num_blocks,
                groups=(Group(page),),
                token_budget=cache.max_batch_tokens,
                chunk_cap=0,
                max_model_len=self._longest,
                asynchronous=False,
            )
        )
        self._call = 0
        self._token_budget = 0
        self._candidates: list[Any] = []

    def add_waiting_request(self, state: Any) -> None:
        """Let a request wait, in its place: one whose blocks were taken comes back here, too."""
        self.waiting_requests[state.request_id] = state
        bisect.insort(
            self.waiting_requests_order, state.request_id, key=lambda name: self._jobs[name].place
        )

    def schedule_batch(self, token_budget: int, cache_budget: int) -> Any:
        """Choose the requests of a step."""
        self._call += 1
        self._token_budget = token_budget
        self._candidates = []
        chosen = super().schedule_batch(token_budget, cache_budget)
        for state in self._candidates:
            if state.request_id not in self.active_requests:
                self._room.release(state.request_id)
        return chosen

    def finish_request(self, request_id: str) -> None:
        """Give back the blocks of a request that has ended, or has to wait again."""
        self._room.release(request_id)
        super().finish_request(request_id)

    def _get_waiting_candidates(self) -> list[Any]:
        """Give the requests that are admitted in this step: those that run have theirs before."""
        running = self.active_requests
        wanted = {
            name: 1
            if state.status == RequestStatus.DECODING
            else len(state.remaining_prefill_tokens)
            for name, state in running.items()
        }
        left = self._token_budget - sum(wanted.values())
        seats = self.max_requests_per_batch - len(running)
        if left <= 0 or seats <= 0 or not self.waiting_requests:
            return []
        room, call = self._room, self._call
        computed = [running[name].position_offset for name in room.held]
        room.begin(call, computed, self._token_budget)
        allocator = _allocator(self.cache)
        free = round(self.cache.compute_free_capacity() * self.cache.num_blocks) - sum(
            allocator.needs_new_blocks(name, running[name].current_len(), tokens)
            for name, tokens in wanted.items()
        )
        for name in self.waiting_requests_order:
            if left == 0 or seats == 0:
                break
            state, job = self.waiting_requests[name], self._jobs[name]
            prompt, known = len(job.prompt), len(state.initial_tokens)
            tokens = min(known, left)
            # Its whole prompt must fit now, as with vLLM: the library would pass over it otherwise.
            free -= room.limits.blocks_of(known)
            course = room.course(prompt, job.output_tokens, known, call, known - tokens)
            alone = not room.held
            if not alone and (free < 0 or not room.has_room(course, call, room.limits.blocks)):
                break
            last = min(prompt + job.sampling["max_tokens"], self._longest) - 1
            room.hold(name, course, prompt=prompt, last=last, known=known, left=known - tokens)
            self._candidates.append(state)
            left -= tokens
            seats -= 1
        return list(self._candidates)

    def _cleanup_waiting_queue(self, request_ids_to_remove_from_waiting: set[str]) -> None:
        if request_ids_to_remove_from_waiting:  # the library goes through all that wait
            super()._cleanup_waiting_queue(request_ids_to_remove_from_waiting)


def _allocator(cache: Any) -> Any:
    """Give what hands out the blocks of a cache that has one kind of them."""
    (allocator,) = cache.cache_allocators.values()
    return allocator


SCHEDULER_MAPPING[NAME] = PlannedScheduler

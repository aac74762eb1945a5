"""A scheduler of vLLM that records its steps; see :mod:`sortedf.runner.step_recorder`."""

from __future__ import annotations

import logging
import time
from typing import Any

from sortedf.runner.step_recorder import StepRecorder

logger = logging.getLogger("vllm.sortedf")


class Recording:
    """Goes before vLLM's scheduler among the bases of a class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._recorder = StepRecorder(logger.warning)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Choose the requests of a step."""
        begin = time.monotonic()
        chosen = self._choose(*args, **kwargs)
        if self._recorder.on:
            self._record(begin, chosen)
        return chosen

    def _choose(self, *args: Any, **kwargs: Any) -> Any:
        scheduler: Any = super()
        return scheduler.schedule(*args, **kwargs)

    def _record(self: Any, begin: float, chosen: Any) -> None:
        tokens = list(chosen.num_scheduled_tokens.values())
        after = [self.requests[name].num_computed_tokens for name in chosen.num_scheduled_tokens]
        running, waiting = self.get_request_counts()
        self._recorder.scheduled(
            begin,
            tokens,
            [end - n for end, n in zip(after, tokens, strict=True)],
            running=running,
            waiting=waiting,
            kv_use=self.get_kv_cache_usage(),
            preempted=len(chosen.preempted_req_ids or ()),
        )

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take up the tokens of a step."""
        scheduler: Any = super()
        outputs = scheduler.update_from_output(scheduler_output, model_runner_output)
        if self._recorder.on:
            self._recorder.ended(
                time.monotonic(),
                ran=scheduler_output.total_num_scheduled_tokens > 0,
                idle=scheduler.get_num_unfinished_requests() == 0,
            )
        return outputs

    def shutdown(self) -> None:
        """End the record of steps, then vLLM's scheduler."""
        self._recorder.close()
        scheduler: Any = super()
        scheduler.shutdown()

"""Counts what vLLM tells of its steps."""

from __future__ import annotations

from typing import Any

from sortedf.runner.engines import Load


class Counter:
    """Keeps the last state: a stat logger of vLLM, its ``StatLoggerBase`` without the import."""

    def __init__(self) -> None:
        self._running = self._waiting = 0
        self._kv_use = 0.0
        self._steps = self._preemptions = 0

    def load(self, not_fed: int) -> Load:
        """Give the state after the last step; jobs that vLLM does not know of yet wait, too."""
        return Load(
            running=self._running,
            waiting=self._waiting + not_fed,
            kv_use=self._kv_use,
            steps=self._steps,
            preemptions=self._preemptions,
        )

    def forget(self) -> None:
        """Take it that nothing runs; the counts stay."""
        self._running = self._waiting = 0
        self._kv_use = 0.0

    def record(
        self,
        scheduler_stats: Any,
        iteration_stats: Any,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
    ) -> None:
        """Take note of a step."""
        if scheduler_stats is not None:
            self._steps += 1
            self._running = scheduler_stats.num_running_reqs
            self._waiting = (
                scheduler_stats.num_waiting_reqs + scheduler_stats.num_skipped_waiting_reqs
            )
            self._kv_use = scheduler_stats.kv_cache_usage
        if iteration_stats is not None:
            self._preemptions += iteration_stats.num_preempted_reqs

    def log(self) -> None:
        """Print nothing."""

    def log_engine_initialized(self) -> None:
        """Print nothing."""

    def record_sleep_state(self, is_awake: int, level: int) -> None:
        """Take no note."""

"""The waiting queue of the planned scheduler, in the place of vLLM's own."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

_Entry: TypeAlias = tuple[float, float, str, Any]


def _entry(request: Any) -> _Entry:
    return request.priority, request.arrival_time, request.request_id, request


class KeyQueue:
    """Waiting requests by (priority, arrival, id), least first, as vLLM's priority queue has them.

    It has the methods of vLLM's ``RequestQueue``. A heap of tuples: vLLM's own compares in Python.
    While it is ``closed`` it says that it is
    empty, which is how the scheduler ends the admissions of a step.
    """

    def __init__(self) -> None:
        self.closed = False
        self._heap: list[_Entry] = []

    def add_request(self, request: Any) -> None:
        """Let a request wait. O(log n)."""
        heapq.heappush(self._heap, _entry(request))

    def pop_request(self) -> Any:
        """Take the first one out. O(log n)."""
        return heapq.heappop(self._heap)[-1]

    def peek_request(self) -> Any:
        """Give the first one."""
        return self._heap[0][-1]

    def prepend_request(self, request: Any) -> None:
        """Let a request wait: in its place, there is no other."""
        self.add_request(request)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        """Let requests wait, each in its place."""
        for request in requests:
            self.add_request(request)

    def remove_request(self, request: Any) -> None:
        """Take a request out. O(n)."""
        self.remove_requests((request,))

    def remove_requests(self, requests: Iterable[Any]) -> None:
        """Take requests out. O(n)."""
        gone = set(requests)
        if gone and self._heap:
            self._heap = [entry for entry in self._heap if entry[-1] not in gone]
            heapq.heapify(self._heap)

    def reorder(self) -> None:
        """Bring the requests into the order of priorities that were changed. O(n)."""
        self._heap = [_entry(entry[-1]) for entry in self._heap]
        heapq.heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap) and not self.closed

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Any]:
        return (entry[-1] for entry in sorted(self._heap, key=lambda entry: entry[:-1]))

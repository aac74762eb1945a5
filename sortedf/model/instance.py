"""Requests and the instance that holds them: integers, read-only, validated once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from sortedf.errors import InvalidRequestError
from sortedf.model.columns import MAX_TOKENS as MAX_TOKENS
from sortedf.model.columns import IntArray as IntArray
from sortedf.model.columns import check_ids, frozen, integers
from sortedf.model.workers import OVERFLOW_BOUND as OVERFLOW_BOUND
from sortedf.model.workers import Worker, checked_workers

_QUOTED = re.compile('[,"\r\n]')


class Request(NamedTuple):
    """One request: what it brings, what it asks for, and when it comes.

    ``prompt_tokens`` (s) and ``output_tokens`` (o) are at least 1, ``release`` (a, a step) at
    least 0.
    """

    id: str
    prompt_tokens: int
    output_tokens: int
    release: int = 0


class Instance:
    """A backlog and the KV budget that it must run on. Frozen; its arrays are read-only.

    Parameters
    ----------
    prompt_tokens, output_tokens
        s and o of each request, shape (n,), integers >= 1 (tokens).
    kv_tokens
        The KV budget M in tokens, >= 1.
    release
        First step at which each request may start, shape (n,), integers >= 0; all 0 when left out.
    ids
        Distinct, non-empty names; "0", "1", ... by position when left out.
    workers
        The workers, where there are several; ``kv_tokens`` is then the largest of their budgets.

    Raises
    ------
    InvalidRequestError
        Naming the first request that breaks a rule. Also where sums could leave int64: more than
        2**40 tokens in all, or n x (last release + sum of outputs), a volume or M of 2**62 or more.

    Notes
    -----
    A request larger than the budget is valid here (another budget may serve it); ``solve`` refuses
    it. See :attr:`oversized`.
    """

    prompt_tokens: IntArray
    output_tokens: IntArray
    release: IntArray
    kv_tokens: int
    ids: tuple[str, ...]
    workers: tuple[Worker, ...]

    def __init__(
        self,
        prompt_tokens: npt.ArrayLike,
        output_tokens: npt.ArrayLike,
        kv_tokens: SupportsIndex,
        release: npt.ArrayLike | None = None,
        ids: Sequence[str] | None = None,
        workers: Sequence[Worker] | None = None,
    ) -> None:
        prompt = integers(prompt_tokens, "prompt_tokens", least=1)
        output = integers(output_tokens, "output_tokens", least=1)
        n = len(prompt)
        arrivals = (
            frozen(np.zeros(n, np.int64))
            if release is None
            else integers(release, "release", least=0)
        )
        for name, array in (("output_tokens", output), ("release", arrivals)):
            if len(array) != n:
                raise InvalidRequestError(f"{name} has length {len(array)}, prompt_tokens {n}")
        if n == 0:
            raise InvalidRequestError("an instance needs at least one request")
        names = tuple(map(str, range(n))) if ids is None else tuple(ids)
        if ids is not None:
            check_ids(names, n)
        all_workers = checked_workers(workers, kv_tokens)
        self.__dict__.update(
            prompt_tokens=prompt,
            output_tokens=output,
            release=arrivals,
            kv_tokens=max(worker.kv_tokens for worker in all_workers),
            ids=names,
            workers=all_workers,
        )
        self._check_sums()

    @classmethod
    def from_requests(cls, requests: Iterable[Request], kv_tokens: SupportsIndex) -> Instance:
        """Gather single requests into an instance, in the order given."""
        rows = list(requests)
        return cls(
            [r.prompt_tokens for r in rows],
            [r.output_tokens for r in rows],
            kv_tokens,
            release=[r.release for r in rows],
            ids=[r.id for r in rows],
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Instance is frozen; use replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("an Instance is frozen")

    def __reduce__(self) -> tuple[Any, ...]:
        # By the constructor: arrays come out of a pickle writable.
        columns = self.prompt_tokens, self.output_tokens, self.kv_tokens, self.release, self.ids
        return Instance, (*columns, self.workers)

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    def __getitem__(self, index: int) -> Request:
        return Request(
            self.ids[index],
            int(self.prompt_tokens[index]),
            int(self.output_tokens[index]),
            int(self.release[index]),
        )

    def __iter__(self) -> Iterator[Request]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instance):
            return NotImplemented
        same = np.array_equal(self.budgets, other.budgets)
        return same and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash((self.kv_tokens, self.sha256))

    def __repr__(self) -> str:
        on = f" at most, {len(self.workers)} workers" if len(self.workers) > 1 else ""
        return f"<Instance: {len(self)} requests, KV budget {self.kv_tokens} tokens{on}>"

    def replace(self, **changes: Any) -> Instance:
        """Copy with some of the constructor's arguments changed, validated anew.

        With another ``kv_tokens`` and no ``workers`` there is one worker, of that budget.
        """
        same: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.output_tokens,
            "kv_tokens": self.kv_tokens,
            "release": self.release,
            "ids": self.ids,
            "workers": None if "kv_tokens" in changes else self.workers,
        }
        if unknown := changes.keys() - same.keys():
            raise TypeError(f"an Instance has no {', '.join(sorted(unknown))}")
        return Instance(**(same | changes))

    def select(self, keep: npt.ArrayLike) -> Instance:
        """Part of the instance: the requests at these positions (or under this mask), ids kept."""
        index = np.arange(len(self))[np.asarray(keep)]
        return self.replace(
            prompt_tokens=self.prompt_tokens[index],
            output_tokens=self.output_tokens[index],
            release=self.release[index],
            ids=[self.ids[i] for i in index],
        )

    def on_workers(self, workers: Sequence[Worker]) -> Instance:
        """Put the same requests on these workers."""
        return self.replace(
            kv_tokens=max((w.kv_tokens for w in workers), default=1), workers=workers
        )

    @property
    def budgets(self) -> IntArray:
        """KV budget of each worker in tokens, shape (R,)."""
        return np.array([worker.kv_tokens for worker in self.workers], np.int64)

    @property
    def pooled(self) -> Instance:
        """The same requests on one worker that has the memory of all together.

        What several workers can do, it can: they never hold more than the sum of their budgets. So
        a lower bound of it is one for them. With one worker it is the instance itself.
        """
        if len(self.workers) == 1:
            return self
        return self.replace(kv_tokens=sum(worker.kv_tokens for worker in self.workers))

    def in_blocks(self, block_size: int) -> Instance:
        """Instance whose plans are safe on an engine that stores KV in blocks of this many tokens.

        Each sequence is taken ``block_size - 1`` tokens larger and the budget rounded down to whole
        blocks: a sequence of k tokens holds ceil(k / B) B <= k + B - 1 slots, so a schedule that is
        feasible here never needs more blocks than there are. Derived for this project.
        """
        if block_size < 1:
            raise InvalidRequestError(f"the block size is {block_size}; it must be at least 1")
        if block_size == 1:
            return self
        workers = [Worker(n, budget // block_size * block_size) for n, budget in self.workers]
        if (least := min(self.budgets.tolist())) < block_size:
            raise InvalidRequestError(
                f"a KV budget of {least} tokens holds no block of {block_size}"
            )
        padded = self.replace(prompt_tokens=self.prompt_tokens + (block_size - 1))
        return padded.on_workers(workers)

    @property
    def oversized(self) -> IntArray:
        """Positions of the requests with s + o > M on every worker: no schedule can serve them."""
        return np.flatnonzero(self.prompt_tokens + self.output_tokens > self.kv_tokens)

    @cached_property
    def volume(self) -> IntArray:
        """Token-steps of each request, s o + o (o + 1) / 2, shape (n,)."""
        s, o = self.prompt_tokens, self.output_tokens
        return frozen(s * o + o * (o + 1) // 2)

    @cached_property
    def sha256(self) -> str:
        """Content hash: SHA-256 of the lines ``id,prompt_tokens,output_tokens,release``.

        UTF-8, LF ends, in input order; an id with a comma, quote, CR or LF is quoted as in CSV. The
        budget is not part of it.
        """
        digest = hashlib.sha256()
        columns = (self.prompt_tokens, self.output_tokens, self.release)
        for first in range(0, len(self), 65536):
            last = first + 65536
            rows = zip(
                self.ids[first:last], *(c[first:last].tolist() for c in columns), strict=True
            )
            text = "".join(f"{_csv_field(name)},{s},{o},{a}\n" for name, s, o, a in rows)
            digest.update(text.encode())
        return digest.hexdigest()

    def _check_sums(self) -> None:
        s, o = self.prompt_tokens, self.output_tokens
        totals = np.cumsum(s + o, dtype=np.float64)
        if totals[-1] > 2 * MAX_TOKENS or int(np.sum(s) + np.sum(o)) > MAX_TOKENS:
            # Floats find a sum far above the bound without wrapping; integers decide near it.
            index = int(np.searchsorted(totals, MAX_TOKENS, side="right"))
            raise InvalidRequestError(
                "over 2^40 tokens in all; split the backlog", min(index, len(self) - 1)
            )
        horizon = int(self.release.max()) + int(o.sum())
        if len(self) * horizon >= OVERFLOW_BOUND:
            raise InvalidRequestError(
                f"{len(self)} requests over a horizon of {horizon} steps could overflow 64-bit "
                "latency sums; split the backlog or bring the releases closer"
            )
        volumes = s.astype(np.float64) * o + o * (o + 1.0) / 2
        worst = int(volumes.argmax())
        if volume_of(int(s[worst]), int(o[worst])) >= OVERFLOW_BOUND // 2:
            raise InvalidRequestError(
                f"request {self.ids[worst]!r} has a volume of 2^61 token-steps or more", worst
            )


def volume_of(prompt_tokens: int, output_tokens: int) -> int:
    """Token-steps of a request, s o + o (o + 1) / 2."""
    return prompt_tokens * output_tokens + output_tokens * (output_tokens + 1) // 2


def _csv_field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text

"""What a replay is asked: arrivals, orders, priorities, predictions and aborts, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.settings import EngineSettings, Policy
from sortedf.errors import InfeasibleError, InvalidRequestError, OptionError
from sortedf.model import Instance

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]


def cut_outputs(instance: Instance, settings: EngineSettings) -> IntArray:
    """Give the outputs as the engine cuts them at ``max_model_len``."""
    limit = settings.max_model_len
    if limit is None:
        return instance.output_tokens
    room = limit - instance.prompt_tokens
    if room.min() < 1:
        index = int(room.argmin())
        raise InvalidRequestError(
            f"request {instance.ids[index]!r} has {instance.prompt_tokens[index]} prompt tokens, "
            f"which leaves no room for an output under max_model_len {limit}",
            index,
        )
    return np.minimum(instance.output_tokens, room)


def check_fit(instance: Instance, output: IntArray, settings: EngineSettings) -> None:
    """Refuse what the engine could never finish."""
    needed = instance.prompt_tokens + output - 1
    large = np.flatnonzero(needed > settings.kv_tokens)
    if large.size:
        rows = [(int(i), instance.ids[i], int(needed[i])) for i in large]
        raise InfeasibleError(rows, settings.kv_tokens, settings.block_size)
    if needed.max() > most_in_a_step(settings):
        index = int(needed.argmax())
        raise InvalidRequestError(
            f"request {instance.ids[index]!r} may need {needed[index]} tokens in one step without "
            f"chunked prefill; max_num_batched_tokens is {settings.max_num_batched_tokens}",
            index,
        )


def most_in_a_step(settings: EngineSettings) -> float:
    """Tokens above which a request is never admitted, inf where it can come in chunks."""
    cap, step = settings.long_prefill_token_threshold, settings.max_num_batched_tokens
    return math.inf if settings.enable_chunked_prefill or 0 < cap <= step else step


def queue_order(
    policy: Policy | str,
    ids: Sequence[str],
    by_arrival: IntArray,
    priorities: npt.ArrayLike | None,
    stamps: npt.ArrayLike | None,
) -> tuple[IntArray, IntArray]:
    """Places in the waiting queue, and the order of seniority with its ties."""
    n = len(ids)
    arrived = inverse(by_arrival)
    if policy == Policy.FCFS:
        if priorities is not None or stamps is not None:
            raise OptionError("priorities and stamps are not read by the policy fcfs")
        return arrived, np.zeros(n, np.int64)
    level = np.zeros(n, np.int64)
    if priorities is not None:
        level = np.asarray(priorities)
        if level.shape != (n,) or level.dtype.kind not in "iu":
            raise OptionError(f"priorities must be {n} integers")
    stamp = arrived.astype(np.float64) if stamps is None else given_seconds("stamps", stamps, n)
    texts = arrived if stamps is None else inverse(np.argsort(np.array(ids, object)))
    rank = inverse(np.lexsort((texts, stamp, level)))
    pairs = np.rec.fromarrays([level, stamp])
    _, seniority = np.unique(pairs, return_inverse=True)
    return rank, seniority.astype(np.int64)


def given_aborts(aborts: npt.ArrayLike | None, arrivals: FloatArray) -> tuple[FloatArray, IntArray]:
    """Check the seconds of aborts; gives them, shape (n,), and the aborted in order."""
    n = len(arrivals)
    if aborts is None:
        return np.full(n, np.inf), np.empty(0, np.int64)
    times = np.asarray(aborts, np.float64)
    if times.shape != (n,) or np.isnan(times).any() or (times < arrivals).any():
        raise OptionError(f"aborts must be {n} times in seconds, none before the arrival")
    by_abort = np.argsort(times, kind="stable")
    return times, by_abort[: np.isfinite(times).sum()].astype(np.int64)


def given_outputs(predicted: npt.ArrayLike, n: int, settings: EngineSettings) -> IntArray:
    """Check predicted outputs; gives them, shape (n,), cut to what the cache can hold."""
    if settings.policy != Policy.PLANNED:
        raise OptionError("predicted outputs are read by the policy planned alone")
    outputs = np.asarray(predicted)
    if outputs.shape != (n,) or outputs.dtype.kind not in "iu" or outputs.min() < 1:
        raise OptionError(f"predicted must be {n} numbers of tokens, each at least 1")
    # What is longer than the cache is cut; no sum with a prompt leaves int64.
    result: IntArray = np.minimum(outputs, settings.kv_tokens + 1).astype(np.int64)
    return result


def given_seconds(name: str, values: npt.ArrayLike | None, n: int) -> FloatArray:
    """Check seconds, shape (n,); zeros when left out."""
    if values is None:
        return np.zeros(n)
    times = np.asarray(values, np.float64)
    if times.shape != (n,) or not np.isfinite(times).all():
        raise OptionError(f"{name} must be {n} times in seconds, all finite")
    return times


def given_order(order: npt.ArrayLike | None, n: int) -> IntArray:
    """Check a permutation, shape (n,); the identity when left out."""
    if order is None:
        return np.arange(n)
    result = np.asarray(order)
    if result.shape != (n,) or result.dtype.kind not in "iu" or set(result.tolist()) != {*range(n)}:
        raise OptionError(f"order must be a permutation of 0 .. {n - 1}")
    return result.astype(np.int64)


def inverse(permutation: IntArray) -> IntArray:
    """Give the place of each element in a permutation."""
    result = np.empty(len(permutation), np.int64)
    result[permutation] = np.arange(len(permutation))
    return result

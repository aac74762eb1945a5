"""Backlogs made to order: published length moments, the papers' families, and plain extremes.

Every kind is a function ``kind(n, *, seed, kv_tokens, ...) -> Instance`` that releases all requests
at step 0 and names them "r0", "r1", ...; every request fits the budget, s + o <= M. The same
arguments give the same bytes on every platform and version (see
:mod:`sortedf.instances.distributions`), and request i does not depend on n: a longer backlog of the
same seed begins with the shorter one.

References: [1] Sorted-F, arXiv 2508.06133; [3] MC-SF, arXiv 2502.07115.
"""

from __future__ import annotations

import csv
import inspect
import operator
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, SupportsIndex

import numpy as np

from sortedf.errors import OptionError
from sortedf.instances import distributions as dist
from sortedf.instances.distributions import Words
from sortedf.model.instance import Instance, IntArray

EXAMPLE_KV_TOKENS = 16_492
"""Default KV budget in tokens: Llama2-70B on two A100, from [3]."""

CONTEXT = 4096
"""Most tokens, prompt and output, of a chat or summary: the context window of Llama2."""

HEAVY_TAIL_CONTEXT = 16_384
"""Most tokens, prompt and output, of a heavy-tailed request: nearly the default budget."""

# A log-normal of mean m and median d has sigma = sqrt(2 ln(m / d)): 1.6164 for prompts and 1.1311
# for outputs with the moments of [3]. Both are raised a little to give back what the cut at the
# context window takes from the mean.
CHAT_PROMPT = dist.log_normal(median=11, sigma=1.6213)
CHAT_OUTPUT = dist.log_normal(median=45, sigma=1.1316)

# Derived here: no log-normal has the three published moments of the outputs, whose longest 5 % are
# a population of their own. So both lengths are given by some quantiles: the moments decide where
# they lie, and the rest follows the shape of public traces of such work. The prompts' lie above
# their published moments by what the cut of `_draw` takes away.
SUMMARY_PROMPT = dist.piecewise(
    tokens=(1, 800, 1320, 2060, 2810, 3450, 3760, 3936, 4055),
    per_mille=(0, 50, 100, 250, 500, 750, 900, 980, 1000),
)
SUMMARY_OUTPUT = dist.piecewise(
    tokens=(15, 60, 115, 167, 242, 372, 620, 3273, 4000),
    per_mille=(0, 50, 250, 500, 750, 900, 950, 990, 1000),
)

CHAT_SHARE = dist.WORD * 4 // 5
"""Words below this make a request of the mix a chat: 80 %."""

HEAVY_TAIL_PROMPT = dist.log_normal(median=64, sigma=1.0)
HEAVY_TAIL_LEAST_OUTPUT = 32

_PROMPT, _OUTPUT, _FAMILY = range(3)  # columns of the words of a request
_LARGEST = 2**31  # tokens of one length: its volume stays within what an instance may hold
_MOST_REQUESTS = 10**8  # so that a slip of the keyboard is an error and not out of memory


def chat(n: int, *, seed: int = 0, kv_tokens: int | None = None) -> Instance:
    """Chats with the length moments of LMSYS-Chat-1M.

    Prompts of mean 40.62 and median 11 tokens, outputs of mean 85.32 and median 45 tokens [3];
    log-normal and independent (derived here). A chat has at most 4096 tokens, or M when that is
    less: the output is cut to that less one token, then the prompt to what the output leaves. See
    :func:`generate` for the parameters.
    """
    words, budget = _start("chat", n, seed, kv_tokens, least=2)
    return _instance(*_chat(words[1:], min(CONTEXT, budget)), budget)


def summaries(n: int, *, seed: int = 0, kv_tokens: int | None = None) -> Instance:
    """Summaries of arXiv papers, by their length moments.

    Prompts of mean 2588 and 99th percentile 3934 tokens; outputs of mean 291, median 167 and 99th
    percentile 3273 tokens: the moments of the public trace. Both lengths are given by quantiles,
    linear in between, and are independent but for the cut of :func:`chat`, which leaves short
    prompts to the long outputs, as in the trace (derived here). A budget below 4096 tokens cuts
    more and so moves the moments. See :func:`generate` for the parameters.
    """
    words, budget = _start("summaries", n, seed, kv_tokens, least=2)
    return _instance(*_summaries(words[1:], min(CONTEXT, budget)), budget)


def mix(n: int, *, seed: int = 0, kv_tokens: int | None = None) -> Instance:
    """Four chats in five, one summary in five, each request drawn on its own: the mix of [1].

    See :func:`chat`, :func:`summaries`, and :func:`generate` for the parameters.
    """
    words, budget = _start("mix", n, seed, kv_tokens, least=2)
    words, context = words[1:], min(CONTEXT, budget)
    is_chat = words[:, _FAMILY] < np.uint64(CHAT_SHARE)
    prompt, output = np.where(is_chat, _chat(words, context), _summaries(words, context))
    return _instance(prompt, output, budget)


def synthetic(n: int, *, seed: int = 0, kv_tokens: int | None = None) -> Instance:
    """Small instances whose optimum can be computed, the synthetic family of [3].

    M uniform on 30..50 unless ``kv_tokens`` gives it (at least 6), s uniform on 1..5, o uniform on
    1..M - s tokens. The paper draws n uniformly from 40..60; here it is given. See
    :func:`generate` for the parameters.
    """
    words, budget = _start("synthetic", n, seed, kv_tokens, least=6, most=_LARGEST)
    if kv_tokens is None:
        budget = int(dist.uniform(words[:1, 0], 30, 50)[0])
    prompt = dist.uniform(words[1:, _PROMPT], 1, 5)
    return _instance(prompt, dist.uniform(words[1:, _OUTPUT], 1, budget - prompt), budget)


def uniform(
    n: int,
    *,
    seed: int = 0,
    kv_tokens: int | None = None,
    prompt_min: int = 1,
    prompt_max: int = 1000,
    output_min: int = 1,
    output_max: int = 1000,
) -> Instance:
    """Prompts and outputs uniform between bounds, independent.

    Parameters
    ----------
    prompt_min, prompt_max, output_min, output_max
        Bounds in tokens, included. The largest pair must fit the budget.
    n, seed, kv_tokens
        See :func:`generate`.
    """
    bounds = []
    for name, low, high in (
        ("prompt", prompt_min, prompt_max),
        ("output", output_min, output_max),
    ):
        least = _integer(f"{name}_min", low, 1, _LARGEST)
        bounds.append((least, _integer(f"{name}_max", high, least, _LARGEST)))
    most = bounds[0][1] + bounds[1][1]
    words, budget = _start("uniform", n, seed, kv_tokens, least=most)
    prompt, output = (dist.uniform(words[1:, k], *bounds[k]) for k in (_PROMPT, _OUTPUT))
    return _instance(prompt, output, budget)


def heavy_tail(
    n: int, *, seed: int = 0, kv_tokens: int | None = None, index: float = 1.5
) -> Instance:
    """Backlogs in which few outputs dwarf all others: Pareto outputs, log-normal prompts.

    Outputs of at least 32 tokens, longer than x with chance (32 / x)**index; prompts of median 64
    tokens and sigma 1; independent. Cut as in :func:`chat`, to 16,384 tokens or M. Derived here, to
    stress orders that look at one length only.

    Parameters
    ----------
    index
        Tail index of the outputs, above 0, at most 100. At 2 or less the variance, at 1 or less
        the mean too, is infinite but for the cut.
    n, seed, kv_tokens
        See :func:`generate`.
    """
    if not isinstance(index, int | float) or isinstance(index, bool) or not 0 < index <= 100:
        raise OptionError(f"index is {index!r}; it must be a number above 0 and at most 100")
    words, budget = _start("heavy-tail", n, seed, kv_tokens, least=2)
    output = dist.table(dist.pareto(HEAVY_TAIL_LEAST_OUTPUT, float(index)), HEAVY_TAIL_CONTEXT - 1)
    prompt = _table(HEAVY_TAIL_PROMPT, HEAVY_TAIL_CONTEXT - 1)
    lengths = _draw(words[1:], prompt, output, min(HEAVY_TAIL_CONTEXT, budget))
    return _instance(*lengths, budget)


GENERATORS: Mapping[str, Callable[..., Instance]] = MappingProxyType(
    {
        "chat": chat,
        "summaries": summaries,
        "mix": mix,
        "synthetic": synthetic,
        "uniform": uniform,
        "heavy-tail": heavy_tail,
    }
)
"""Every kind by its name; the first line of its docstring says what it makes."""


def generate(
    kind: str, n: int, *, seed: int = 0, kv_tokens: int | None = None, **options: Any
) -> Instance:
    """Backlog of a kind, all requests released at step 0.

    Parameters
    ----------
    kind
        A name in :data:`GENERATORS`.
    n
        Number of requests, >= 1.
    seed
        Whole number >= 0. Same arguments, same instance, byte for byte.
    kv_tokens
        KV budget M in tokens. Left out, it is 16,492 (Llama2-70B on two A100 [3]), except that
        ``synthetic`` draws it.
    options
        What the kind takes besides; see its function.

    Raises
    ------
    OptionError
        Where a name is unknown, a number is not whole or out of its range, or the budget is too
        small for the kind.
    """
    if kind not in GENERATORS:
        raise OptionError(f"no kind {kind!r} to generate; there are {', '.join(GENERATORS)}")
    generator = GENERATORS[kind]
    known = inspect.signature(generator).parameters.keys() - {"n", "seed", "kv_tokens"}
    if unknown := options.keys() - known:
        takes = ", ".join(sorted(known)) or "none"
        raise OptionError(f"{kind} has no option {', '.join(sorted(unknown))}; it takes {takes}")
    return generator(n, seed=seed, kv_tokens=kv_tokens, **options)


def example() -> Instance:
    """Read the packaged backlog that a newcomer meets first.

    It is ``generate("mix", 300, seed=0)`` in a file; its budget is :data:`EXAMPLE_KV_TOKENS`.
    """
    path = resources.files("sortedf.instances") / "data" / "example.csv"
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    return Instance(
        [int(row["prompt_tokens"]) for row in rows],
        [int(row["output_tokens"]) for row in rows],
        EXAMPLE_KV_TOKENS,
        ids=[row["id"] for row in rows],
    )


_table = cache(dist.table)


def _chat(words: Words, most: int) -> tuple[IntArray, IntArray]:
    prompt, output = (_table(tail, CONTEXT - 1) for tail in (CHAT_PROMPT, CHAT_OUTPUT))
    return _draw(words, prompt, output, most)


def _summaries(words: Words, most: int) -> tuple[IntArray, IntArray]:
    prompt, output = (_table(tail, CONTEXT - 1) for tail in (SUMMARY_PROMPT, SUMMARY_OUTPUT))
    return _draw(words, prompt, output, most)


def _draw(words: Words, prompt: Words, output: Words, most: int) -> tuple[IntArray, IntArray]:
    """Lengths by their tables, cut so that s + o <= most: documents are cut, answers are kept."""
    o = np.minimum(dist.from_table(words[:, _OUTPUT], output), most - 1)
    return np.minimum(dist.from_table(words[:, _PROMPT], prompt), most - o), o


def _start(
    kind: str, n: int, seed: int, kv_tokens: int | None, least: int, most: int | None = None
) -> tuple[Words, int]:
    """Check what all kinds take; words of shape (n + 1, 3) and the budget M in tokens.

    Row 0 is for the instance as a whole, row i + 1 for request i, so that no request depends on n.
    """
    n = _integer("n", n, 1, _MOST_REQUESTS)
    seed = _integer("seed", seed, 0)
    budget = _integer("kv_tokens", EXAMPLE_KV_TOKENS if kv_tokens is None else kv_tokens, 1, most)
    if budget < least:
        raise OptionError(f"kv_tokens is {budget}; {kind} needs {least} or more for its requests")
    return dist.words(n + 1, 3, seed), budget


def _integer(name: str, value: SupportsIndex, least: int, most: int | None = None) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise OptionError(f"{name} is {value!r}, not a whole number") from None
    if isinstance(value, bool) or number < least or (most is not None and number > most):
        rule = f"{least} or more" if most is None else f"{least} .. {most}"
        raise OptionError(f"{name} is {value!r}; it must be {rule}")
    return number


def _instance(prompt: IntArray, output: IntArray, kv_tokens: int) -> Instance:
    return Instance(prompt, output, kv_tokens, ids=[f"r{i}" for i in range(len(prompt))])

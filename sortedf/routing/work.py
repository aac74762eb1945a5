"""What a request takes of an instance: engine seconds of its own, tokens and token-steps of all."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.kernels.step_terms import (
    CONTEXT,
    CONTEXT_SQUARED,
    DECODE_TOKENS,
    PREFILL_TOKENS,
    STEPS,
)
from sortedf.routing.instances import EngineInstance

FloatArray: TypeAlias = npt.NDArray[np.float64]


class Work(NamedTuple):
    """Least work of some requests on an instance, arrays of shape (n,).

    ``prefill`` and ``decode`` are seconds that the steps with their tokens are longer for them.
    ``steps`` is the number of steps that each takes part in, ``token_steps`` the sum over these of
    the tokens that it holds.
    """

    prefill: FloatArray
    decode: FloatArray
    steps: FloatArray
    token_steps: FloatArray


def least_work(
    instance: EngineInstance, prompt_tokens: npt.ArrayLike, output_tokens: npt.ArrayLike
) -> Work:
    """Give the least that requests can take, whatever steps they are in.

    A prompt token costs at least the lesser of a prefill and a decode token (a last chunk of one
    token counts as a decode). The other o - 1 tokens come of decodes with contexts s .. s + o - 2,
    in which a request holds s + 1 .. s + o - 1 tokens; or, after a preemption, of the chunks that
    compute all these again, if that is less. O(n + longest request).
    """
    s, o = np.asarray(prompt_tokens, np.int64), np.asarray(output_tokens, np.int64)
    seconds = instance.step_time.seconds
    token = min(seconds[PREFILL_TOKENS], seconds[DECODE_TOKENS])
    context = np.arange(np.max(s + o, initial=1), dtype=np.float64)
    decode = (
        seconds[DECODE_TOKENS]
        + context * seconds[CONTEXT]
        + context * context * seconds[CONTEXT_SQUARED]
    )
    upto = np.concatenate([[0.0], np.cumsum(np.minimum(decode, token * (context + 1)))])
    k = (o - 1).astype(np.float64)
    return Work(
        prefill=s * token,
        decode=upto[s + o - 1] - upto[s],
        steps=o.astype(np.float64),
        token_steps=k * s + k * (k + 1) / 2,
    )


def share_seconds(
    instance: EngineInstance, prompt_tokens: npt.ArrayLike, output_tokens: npt.ArrayLike
) -> FloatArray:
    """Give the seconds of a full instance that requests take.

    Their own, and their part of what is fixed: of the fixed seconds of a step a request has as
    large a part as of the KV cache, or of the seats, whichever is more. Derived for this project.
    """
    work = least_work(instance, prompt_tokens, output_tokens)
    settings = instance.settings
    part = np.maximum(work.token_steps / settings.kv_tokens, work.steps / settings.max_num_seqs)
    result: FloatArray = work.prefill + work.decode + part * instance.step_time.seconds[STEPS]
    return result

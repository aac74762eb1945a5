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
    """Give the least that requests can take, whatever steps they are in, without preemption.

    A prompt token costs at least the lesser of a prefill and a decode token (a last chunk of one
    token counts as a decode). The decodes are the o - 1 steps with contexts s .. s + o - 2, in
    which a request holds s + 1 .. s + o - 1 tokens.
    """
    s, o = np.asarray(prompt_tokens, np.float64), np.asarray(output_tokens, np.float64)
    seconds = instance.step_time.seconds
    k = o - 1
    contexts = k * s + k * (k - 1) / 2
    squares = k * s * s + s * k * (k - 1) + (k - 1) * k * (2 * k - 1) / 6
    return Work(
        prefill=s * min(seconds[PREFILL_TOKENS], seconds[DECODE_TOKENS]),
        decode=k * seconds[DECODE_TOKENS]
        + contexts * seconds[CONTEXT]
        + squares * seconds[CONTEXT_SQUARED],
        steps=o,
        token_steps=contexts + k,
    )


def share_seconds(
    instance: EngineInstance, prompt_tokens: npt.ArrayLike, output_tokens: npt.ArrayLike
) -> FloatArray:
    """Seconds of a full instance that requests take: their own, and their part of what is fixed.

    Of the fixed seconds of a step a request has as large a part as of the KV cache, or of the
    seats, whichever is more. Derived for this project.
    """
    work = least_work(instance, prompt_tokens, output_tokens)
    settings = instance.settings
    part = np.maximum(work.token_steps / settings.kv_tokens, work.steps / settings.max_num_seqs)
    result: FloatArray = (
        work.prefill + work.decode + part * instance.step_time.seconds[STEPS]
    )
    return result

"""From a job to a request of vLLM, and from its output to an outcome."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sortedf.errors import EngineError
from sortedf.runner.engines import Answer, Job, Outcome, Refusal, Times
from sortedf.runner.library_output import reason
from sortedf.runner.scheduler_settings import Told

ENDS = {"stop": "stop", "length": "length", "repetition": "stop"}
"""How vLLM says that an answer ended, and how it is said here."""


class Requests:
    """Makes requests.

    Parameters
    ----------
    has_text
        Whether the engine has a tokenizer.
    defaults
        How the model's generation config samples where a job does not say.
    """

    def __init__(self, *, has_text: bool, defaults: Mapping[str, Any]) -> None:
        self._has_text = has_text
        # Every job says how many tokens it may have.
        self._defaults = {name: value for name, value in defaults.items() if name != "max_tokens"}
        self._inputs = importlib.import_module("vllm.inputs")
        self._sampling = importlib.import_module("vllm.sampling_params")

    def prompt(self, job: Job) -> Any:
        """Give the prompt as vLLM takes it."""
        return self._inputs.tokens_input(list(job.prompt))

    def parameters(self, job: Job, steps: Path | None) -> Any:
        """Give the ``SamplingParams`` of a job, with what the scheduler is told of it.

        Raises
        ------
        Exception
            Whatever vLLM raises for parameters that it does not know or take.
        """
        given = {**self._defaults, **job.sampling}
        if isinstance(given.get("structured_outputs"), dict):
            structured = self._sampling.StructuredOutputsParams
            given["structured_outputs"] = structured(**given["structured_outputs"])
        # Without a file named, the scheduler would go on with the one before.
        told = Told(job.place, job.output_tokens, str(steps or os.devnull))
        given["extra_args"] = {**(given.get("extra_args") or {}), **told.extra_args()}
        given["detokenize"] = self._has_text and given.get("detokenize", True)
        given["output_kind"] = self._sampling.RequestOutputKind.FINAL_ONLY
        return self._sampling.SamplingParams(**given)


def outcome_of(job: Job, output: Any) -> Outcome:
    """Read a finished ``RequestOutput``.

    Raises
    ------
    EngineError
        When vLLM gave the request up although nobody asked it to: it is being ended.
    """
    (answer,) = output.outputs
    if answer.finish_reason == "abort":
        raise EngineError("vLLM is being ended from outside")
    if answer.finish_reason not in ENDS:
        text = f"vLLM ended it by {answer.finish_reason or 'nothing that it names'}; see its log"
        return Refusal(job=job, code="engine_error", message=text)
    told = output.metrics
    return Answer(
        job=job,
        text=answer.text,
        token_ids=tuple(answer.token_ids),
        finish_reason=ENDS[answer.finish_reason],
        stop_reason=answer.stop_reason,
        logprobs=answer.logprobs,
        times=Times(
            arrival=told.arrival_time,
            queued=told.queued_ts,
            admitted=told.scheduled_ts,
            first_token=told.first_token_ts,
            last_token=told.last_token_ts,
            preemptions=told.num_preemptions,
        ),
    )


def refusal_of(job: Job, error: Exception) -> Refusal:
    """Make a refusal of what vLLM raised for one job."""
    return Refusal(job=job, code="invalid_request", message=f"vLLM refuses it: {reason(error)}")

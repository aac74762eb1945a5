"""What transformers has generated as answers of the runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sortedf.runner.engines import Answer, Job, Outcome, Refusal, Times


class _Logprob(NamedTuple):
    """Of the token that was taken: the library has no others."""

    logprob: float
    decoded_token: str | None


@dataclass
class Running:
    """A job that the library has, and what has happened to it."""

    job: Job
    ends: Sequence[int]
    arrival: float
    queued: float
    admitted: float | None = None
    first_token: float | None = None
    preemptions: int = 0


def outcome_of(output: Any, running: Running, end: float, tokenizer: Any) -> Outcome:
    """Give what became of a job that has ended.

    Parameters
    ----------
    output
        What the library says of it.
    end
        Of the step in which it ended.
    tokenizer
        ``None`` for answers of token ids alone.
    """
    job = running.job
    if output.error is not None or running.admitted is None or running.first_token is None:
        text = f"transformers gave it up: {output.error}"
        return Refusal(job=job, code="engine_error", message=text)
    tokens: list[int] = output.generated_tokens
    stopped = tokens[-1] in running.ends
    named = stopped and tokens[-1] in (job.sampling.get("stop_token_ids") or ())
    logprobs = None
    if job.sampling.get("logprobs") is not None:
        logprobs = [
            {token: _Logprob(value, _text(tokenizer, [token], {}))}
            for token, value in zip(tokens, output.logprobs, strict=True)
        ]
    shown = tokens
    if stopped and not job.sampling.get("include_stop_str_in_output"):
        shown = tokens[:-1]
    return Answer(
        job=job,
        text=_text(tokenizer, shown, job.sampling) or "",
        token_ids=tuple(tokens),
        finish_reason="stop" if stopped else "length",
        stop_reason=tokens[-1] if named else None,
        logprobs=logprobs,
        times=Times(
            arrival=running.arrival,
            queued=running.queued,
            admitted=running.admitted,
            first_token=running.first_token,
            last_token=end,
            preemptions=running.preemptions,
        ),
    )


def _text(tokenizer: Any, tokens: Sequence[int], sampling: Mapping[str, Any]) -> str | None:
    """Give the text of tokens; ``None`` without a tokenizer, or where none is wanted."""
    if tokenizer is None or not sampling.get("detokenize", True):
        return None
    special = ("skip_special_tokens", "spaces_between_special_tokens")
    how = {name: sampling[name] for name in special if name in sampling}
    return str(tokenizer.decode(tokens, **({"skip_special_tokens": True} | how)))

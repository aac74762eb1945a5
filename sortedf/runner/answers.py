"""From the answers of a line's jobs to its one line of output, in the shape of a server's."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sortedf.runner.engines import Answer, Outcome, Refusal
from sortedf.runner.jobs import Line, LineError
from sortedf.runner.sampling import Form

LEAST_LOGPROB = -9999.0
"""Stands for minus infinity, which JSON does not have; vLLM's server says the same."""


class Collector:
    """Takes outcomes of jobs and gives a line of output when the last job of a line has ended.

    Parameters
    ----------
    lines
        Those whose jobs run, by ``custom_id``.
    model
        The name that answers give.
    """

    def __init__(self, lines: Mapping[str, Line], model: str) -> None:
        self._model = model
        self._line_of = {
            planned.name: (line, k)
            for line in lines.values()
            for k, planned in enumerate(line.places)
        }
        self._parts: dict[str, list[Outcome | None]] = {}

    def take(self, outcome: Outcome) -> dict[str, Any] | None:
        """Note one outcome; the output line if it completes one. O(1) beside that."""
        line, choice = self._line_of[outcome.job.name]
        parts = self._parts.setdefault(line.custom_id, [None] * len(line.places))
        if parts[choice] is not None:
            raise AssertionError(f"{outcome.job.name!r} ended twice")
        parts[choice] = outcome
        if any(part is None for part in parts):
            return None
        del self._parts[line.custom_id]
        refusal = next((part for part in parts if isinstance(part, Refusal)), None)
        if refusal is not None:
            return error_line(refused(line, refusal, status=None))
        answers = [part for part in parts if isinstance(part, Answer)]
        return answer_line(line, answers, self._model)


def refused(line: Line, refusal: Refusal, status: int | None) -> LineError:
    """Make the refusal of one job that of its line."""
    several = len(line.places) > 1
    where = f"{refusal.job.name}: " if several else ""
    return LineError(line.custom_id, line.number, refusal.code, where + refusal.message, status)


def error_line(error: LineError) -> dict[str, Any]:
    """Give the line of output of a request that failed."""
    told: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.custom_id is None:
        told["message"] = f"line {error.line}: {error.message}"
    if error.line is not None:
        told["line"] = error.line
    response = None
    if error.status is not None:
        response = {"status_code": error.status, "request_id": uuid.uuid4().hex, "body": None}
    return {
        "id": f"batch_req_{uuid.uuid4().hex}",
        "custom_id": error.custom_id,
        "response": response,
        "error": told,
    }


def answer_line(line: Line, answers: Sequence[Answer], model: str) -> dict[str, Any]:
    """Give the line of output of a request whose choices are all there, in their order."""
    chat = line.sampling.form.chat
    request = uuid.uuid4().hex
    prompt = sum(map(len, line.prompts))
    output = sum(answer.output_tokens for answer in answers)
    body: dict[str, Any] = {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{request}",
        "object": "chat.completion" if chat else "text_completion",
        "created": int(time.time()),
        "model": model,
        "choices": [_choice(line, k, answer) for k, answer in enumerate(answers)],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
        },
    }
    if chat and line.sampling.form.token_ids:
        body["prompt_token_ids"] = list(line.prompts[0])
    return {
        "id": f"batch_req_{uuid.uuid4().hex}",
        "custom_id": line.custom_id,
        "response": {"status_code": 200, "request_id": request, "body": body},
        "error": None,
    }


def _choice(line: Line, index: int, answer: Answer) -> dict[str, Any]:
    form = line.sampling.form
    logprobs = None
    if form.logprobs is not None and answer.logprobs is not None:
        logprobs = (_chat_logprobs if form.chat else _completion_logprobs)(answer, form)
    choice: dict[str, Any] = {"index": index}
    if form.chat:
        choice["message"] = {"role": "assistant", "content": answer.text}
    else:
        choice["text"] = answer.text
    choice |= {
        "logprobs": logprobs,
        "finish_reason": answer.finish_reason,
        "stop_reason": answer.stop_reason,
    }
    if form.token_ids:
        choice["token_ids"] = list(answer.token_ids)
        if not form.chat:
            choice["prompt_token_ids"] = list(answer.job.prompt)
    return choice


def _token(token_id: int, entry: Any, form: Form) -> str:
    """Text of a token; its id in words where the engine has no text for it or ids are wanted."""
    text = entry.decoded_token
    return f"token_id:{token_id}" if form.tokens_as_ids or text is None else str(text)


def _chat_logprobs(answer: Answer, form: Form) -> dict[str, Any]:
    content = []
    for token_id, step in zip(answer.token_ids, answer.logprobs, strict=True):
        alternatives = [
            _told(other, entry, form) for other, entry in list(step.items())[: form.logprobs]
        ]
        content.append(_told(token_id, step[token_id], form) | {"top_logprobs": alternatives})
    return {"content": content}


def _told(token_id: int, entry: Any, form: Form) -> dict[str, Any]:
    token = _token(token_id, entry, form)
    encoded = list(token.encode("utf-8", errors="replace"))
    return {"token": token, "logprob": max(entry.logprob, LEAST_LOGPROB), "bytes": encoded}


def _completion_logprobs(answer: Answer, form: Form) -> dict[str, Any]:
    tokens, chosen, tops, offsets = [], [], [], []
    offset = 0
    for token_id, step in zip(answer.token_ids, answer.logprobs, strict=True):
        token = _token(token_id, step[token_id], form)
        tokens.append(token)
        chosen.append(max(step[token_id].logprob, LEAST_LOGPROB))
        # The token itself and so many others, as the API has it.
        entries = list(step.items())[: (form.logprobs or 0) + 1]
        tops.append({_token(other, e, form): max(e.logprob, LEAST_LOGPROB) for other, e in entries})
        offsets.append(offset)
        offset += len(token)
    return {
        "text_offset": offsets,
        "token_logprobs": chosen,
        "tokens": tokens,
        "top_logprobs": tops,
    }

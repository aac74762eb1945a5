"""What an OpenAI batch output file says of lengths: the usage of each request that was answered."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from sortedf.instances.json_text import JSON_ERRORS, json_fault
from sortedf.instances.reading import FaultLog
from sortedf.instances.source import Source

_OK = 200


class Usage(NamedTuple):
    """Tokens of one request and its answer."""

    prompt_tokens: int
    output_tokens: int


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int = 0


class _Body(msgspec.Struct):
    usage: _Usage | None = None


class _Response(msgspec.Struct):
    status_code: int | None = None
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    custom_id: str | None
    response: _Response | None = None


_LINE = msgspec.json.Decoder(_Line)
_BODY = msgspec.json.Decoder(_Body)


def read_usages(source: Source, log: FaultLog) -> dict[str, Usage]:
    """Read an output file, such as ``output.jsonl`` of a run folder; usages by ``custom_id``.

    Requests that failed, and answers of no tokens, are left out; of several answers to a request
    the first stands. A line that is none of an output file is a fault. O(size of the file).
    """
    usages: dict[str, Usage] = {}
    for number, text in source.lines():
        try:
            line = _LINE.decode(text)
            response = line.response
            if line.custom_id is None or response is None or response.status_code != _OK:
                continue
            usage = _BODY.decode(response.body).usage
        except JSON_ERRORS as error:
            log.add(number, json_fault(text, error))
            continue
        if usage is None:
            log.add(number, "an answer without usage: how many tokens it has is not known")
        elif usage.prompt_tokens > 0 and usage.completion_tokens > 0:
            found = Usage(usage.prompt_tokens, usage.completion_tokens)
            usages.setdefault(line.custom_id, found)
    return usages

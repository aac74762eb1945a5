"""Holds sampling parameters against what vLLM's server makes of the same bodies.

Reads JSON lines ``{"chat", "body", "limit", "parameters"}`` and answers each with what vLLM says of
the body (``refused``, or null), and the fields in which the parameters differ from its own.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.sampling_params import SamplingParams, StructuredOutputsParams

IGNORED = ("output_kind", "skip_clone", "n")


def fields(parameters: SamplingParams) -> dict[str, Any]:
    """Give what matters of parameters, as they come out of their checks."""
    names = [name for name in parameters.__struct_fields__ if name not in IGNORED]
    return {name: getattr(parameters, name) for name in names}


def compare(asked: dict[str, Any]) -> dict[str, Any]:
    """Hold one body's parameters against vLLM's."""
    request = ChatCompletionRequest if asked["chat"] else CompletionRequest
    limit = asked["limit"]
    try:
        theirs = request(**asked["body"]).to_sampling_params(limit, {})
    except Exception as error:
        return {"refused": str(error), "differ": []}
    if asked["parameters"] is None:
        return {"refused": None, "differ": []}
    given = dict(asked["parameters"])
    if "logit_bias" in given:
        given["logit_bias"] = {int(key): value for key, value in given["logit_bias"].items()}
    if "structured_outputs" in given:
        given["structured_outputs"] = StructuredOutputsParams(**given["structured_outputs"])
    ours = fields(SamplingParams(max_tokens=limit, **given))
    differ = [f"{k}: {ours[k]!r} {v!r}" for k, v in fields(theirs).items() if ours[k] != v]
    return {"refused": None, "differ": differ}


for line in sys.stdin:
    print(json.dumps(compare(json.loads(line))))

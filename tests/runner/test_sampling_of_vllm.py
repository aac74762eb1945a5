"""What is sampled by a body is what vLLM's own server samples by it."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from batch_files import chat, completion

from sortedf.instances.batch_line import check_line
from sortedf.instances.json_values import BadLine
from sortedf.runner.sampling import sampling_of

DRIVER = Path(__file__).parent / "drivers" / "compare_sampling.py"

VALUES: dict[str, list[Any]] = {
    "temperature": [0, 1e-3, 0.7, 1, 2, 2.01, -0.1, None],
    "top_p": [0, 0.1, 1, 1.1, None],
    "top_k": [-2, -1, 0, 5, None],
    "min_p": [-0.1, 0, 0.3, 1, 1.1],
    "presence_penalty": [-2.1, -2, 0, 2, 2.1],
    "frequency_penalty": [-2.1, -2, 0, 2, 2.1],
    "repetition_penalty": [-1, 0, 0.5, 1.5, 3],
    "seed": [-1, 0, 5, 2**63 - 1, 2**63, None],
    "stop": ["end", ["a", "b"], [], "", ["a", ""], None],
    "stop_token_ids": [[], [3, 3, 4], None],
    "bad_words": [[], ["a", "a"], [""]],
    "allowed_token_ids": [[1, 2], None],
    "logit_bias": [{}, {"5": 1}, {"5": 200, "6": -200}, None],
    "min_tokens": [0, 3, 8, 9, -1],
    "ignore_eos": [True, False],
    "include_stop_str_in_output": [True, False],
    "skip_special_tokens": [True, False],
    "spaces_between_special_tokens": [True, False],
    "response_format": [
        {"type": "text"},
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
        {"type": "json_schema"},
        None,
    ],
    "structured_outputs": [
        {"regex": "a+"},
        {"choice": ["a", "b"]},
        {"json": {"type": "object"}, "disable_any_whitespace": True},
        {"grammar": 'root ::= "a"'},
        {},
        {"regex": "a", "choice": ["b"]},
        None,
    ],
}
CHAT: dict[str, list[Any]] = {"logprobs": [True, False, None], "top_logprobs": [0, 2, None]}
TEXT: dict[str, list[Any]] = {"logprobs": [0, 2, -2, None]}


def asked(generator: random.Random) -> dict[str, Any]:
    """Draw a body, and read it."""
    is_chat = generator.random() < 0.5
    values = VALUES | (CHAT if is_chat else TEXT)
    keys = generator.sample(sorted(values), generator.randint(1, 4))
    body = {key: generator.choice(values[key]) for key in keys}
    entry = (chat if is_chat else completion)(**body)
    if not is_chat:
        entry["body"]["prompt"] = [1, 2, 3]
    told = {"chat": is_chat, "body": entry["body"], "limit": 8, "parameters": None, "why": None}
    try:
        return told | {"parameters": sampling_of(check_line(entry)).parameters}
    except BadLine as bad:
        return told | {"why": str(bad)}


@pytest.mark.vllm
def test_bodies_mean_what_they_mean_to_vllm() -> None:
    root = Path(__file__).parents[2]
    python = Path(os.environ.get("SORTEDF_VLLM_PYTHON", root / ".venv-vllm" / "bin" / "python"))
    if not python.exists():
        pytest.skip("vLLM is not installed: make vllm sets up .venv-vllm")
    generator = random.Random(0)
    bodies = [asked(generator) for _ in range(2000)]
    done = subprocess.run(
        [python, DRIVER],
        input="".join(json.dumps(body) + "\n" for body in bodies),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(bodies)
    pairs = list(zip(bodies, answers, strict=True))
    assert [pair for pair in pairs if pair[1]["differ"]] == []
    unlike = [p for p in pairs if (p[0]["why"] is None) != (p[1]["refused"] is None)]
    assert unlike == []
    assert 300 < sum(body["why"] is None for body in bodies) < len(bodies) - 300

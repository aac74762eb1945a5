"""Bodies and what is sampled by them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from batch_files import JSON, chat, completion
from hypothesis import example, given
from hypothesis import strategies as st

from sortedf.instances.batch_line import check_line
from sortedf.instances.json_values import BadLine
from sortedf.runner.sampling import Form, Sampling, sampling_of

KEYS = (
    *("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "seed"),
    *("repetition_penalty", "stop", "stop_token_ids", "bad_words", "allowed_token_ids", "tools"),
    *("logit_bias", "min_tokens", "ignore_eos", "tool_choice", "logprobs", "top_logprobs", "model"),
    *("response_format", "structured_outputs", "stream", "echo", "suffix", "n", "best_of", "user"),
    *("return_token_ids", "skip_special_tokens", "priority", "guided_json", "max_tokens"),
)


def sampled(entry: dict[str, Any]) -> Sampling:
    return sampling_of(check_line(json.loads(json.dumps(entry))))


def refusal(entry: dict[str, Any]) -> str:
    with pytest.raises(BadLine) as caught:
        sampled(entry)
    return str(caught.value)


def test_what_is_not_asked_for_is_left_to_the_engine() -> None:
    assert sampled(chat()) == Sampling({}, 8, Form(chat=True))
    nulls: dict[str, Any] = dict.fromkeys(
        ("temperature", "top_p", "seed", "stop", "logit_bias", "logprobs")
    )
    assert sampled(completion(**nulls)) == Sampling({}, 8, Form(chat=False))


def test_every_way_to_sample() -> None:
    asked: dict[str, Any] = {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "presence_penalty": -2,
        "frequency_penalty": 2,
        "repetition_penalty": 1.1,
        "seed": 3,
        "stop": "END",
        "stop_token_ids": [5],
        "bad_words": ["no"],
        "allowed_token_ids": [1, 2],
        "logit_bias": {"7": 200, "8": -1},
        "min_tokens": 2,
        "ignore_eos": True,
        "include_stop_str_in_output": True,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
    }
    assert sampled(chat(**asked)).parameters == asked | {
        "stop": ["END"],
        "logit_bias": {7: 100.0, 8: -1.0},
    }


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("temperature", [0, 2, 0.1], [-3, 2.1, "0.5", True, [1]]),
        ("top_p", [1, 0.01], [0, 1.5, -0.1]),
        ("top_k", [-1, 0, 50], [-2, 1.5, True]),
        ("min_p", [0, 1], [-0.1, 1.1]),
        ("presence_penalty", [-2, 2], [-2.1, 3]),
        ("frequency_penalty", [-2, 2], [10**400]),
        ("repetition_penalty", [0.1, 5], [0, -1, 10**400]),
        ("seed", [0, -5, 2**63 - 2], [2**63, 1.0, "1"]),
        ("stop", ["a", ["a", "b"], []], ["", ["a", ""], [1], {"a": 1}, 3]),
        ("stop_token_ids", [[], [1]], [[-1], [1.0], 3]),
        ("allowed_token_ids", [[3]], [[], [-1]]),
        ("logit_bias", [{}, {"3": 1}], [{"-1": 1}, {"a": 1}, {"3": "x"}, [1], {"9" * 12: 1}]),
        ("min_tokens", [0, 8], [9, -1]),
        ("ignore_eos", [True, False], [1, "true"]),
    ],
)
def test_ranges(key: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        sampled(chat(**{key: value}))
    for value in bad:
        assert key in refusal(chat(**{key: value}))


@pytest.mark.parametrize(
    "body",
    [
        {"stream": True},
        {"echo": True},
        {"suffix": "end"},
        {"audio": {"voice": "a"}},
        {"modalities": ["text", "audio"]},
        {"prompt_logprobs": 0},
        {"truncate_prompt_tokens": 5},
        {"guided_json": {"type": "object"}},
        {"priority": 3},
        {"vllm_xargs": {"a": 1}},
        {"functions": [{"name": "f"}]},
        {"include_reasoning": False},
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(body: dict[str, Any]) -> None:
    with pytest.raises(BadLine) as caught:
        sampled(chat(**body))
    assert str(caught.value).startswith(next(iter(body)))
    assert caught.value.code == "unsupported_parameter"


def test_what_changes_nothing_is_taken() -> None:
    body: dict[str, Any] = {
        "user": "u",
        "metadata": {"a": "b"},
        "stream": False,
        "suffix": None,
        "store": True,
    }
    assert sampled(chat(**body)) == sampled(chat())


def test_unknown_keys_are_told() -> None:
    assert sampled(chat(foo=1, extra_body={})).ignored == ("foo", "extra_body")


def test_the_limit() -> None:
    """Case 33: the newer name wins; without any, the context or what the API says."""
    assert sampled(chat(max_completion_tokens=50, max_tokens=100)).limit == 50
    assert sampled(chat(max_completion_tokens=None)).limit == 8
    assert sampled(chat(max_tokens=None)).limit is None
    assert sampled(completion(max_tokens=None)).limit == 16


def test_seeds_of_choices() -> None:
    seeded = sampled(chat(n=3, seed=4))
    assert [seeded.of_choice(k)["seed"] for k in range(3)] == [4, 5, 6]
    assert "seed" not in sampled(chat(n=3)).of_choice(2)
    assert "seed" not in sampled(chat(n=3, seed=-1)).of_choice(2)
    assert "seed" in refusal(chat(n=3, seed=2**63 - 2))


def test_log_probabilities() -> None:
    assert sampled(chat(logprobs=True)).parameters["logprobs"] == 0
    assert sampled(chat(logprobs=True, top_logprobs=3)).form.logprobs == 3
    assert sampled(chat(logprobs=False)).form.logprobs is None
    assert sampled(completion(logprobs=2)).parameters["logprobs"] == 2
    assert "logprobs" in refusal(chat(logprobs=2))
    assert "needs logprobs" in refusal(chat(top_logprobs=2))
    assert "at most 20" in refusal(completion(logprobs=21))


def test_tools_are_text_or_nothing() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert "tool_choice" in refusal(chat(tools=tools))
    assert "tool_choice" in refusal(chat(tools=tools, tool_choice="required"))
    assert sampled(chat(tools=tools, tool_choice="none")).parameters == {}


def test_structured_outputs() -> None:
    def of(**body: Any) -> Any:
        return sampled(chat(**body)).parameters.get("structured_outputs")

    schema = {"type": "object"}
    named = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert of(response_format={"type": "text"}) is None
    assert of(response_format={"type": "json_object"}) == {"json_object": True}
    assert of(response_format=named) == {"json": schema}
    assert of(structured_outputs={"choice": ["a", "b"]}) == {"choice": ["a", "b"]}
    bad: dict[str, Any]
    for bad in (
        {"response_format": "json"},
        {"response_format": {"type": "xml"}},
        {"response_format": {"type": "json_schema"}},
        {"structured_outputs": {}},
        {"structured_outputs": {"choice": []}},
        {"structured_outputs": {"regex": "a", "choice": ["a"]}},
        {"structured_outputs": {"regexp": "a"}},
        {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
    ):
        refusal(chat(**bad))


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4), st.booleans())
@example({"seed": 2**70, "n": 2}, True)
@example({"logit_bias": {"\u0661": 1}}, True)
def test_any_body_is_sampled_or_refused(body: dict[str, Any], is_chat: bool) -> None:
    """Nothing but a refusal in words comes out, and what is sampled is plain data in range."""
    try:
        found = sampled((chat if is_chat else completion)(**body))
    except BadLine:
        return
    assert 0 <= found.parameters.get("temperature", 0) <= 2
    assert 0 < found.parameters.get("top_p", 1) <= 1
    assert found.limit is None or found.limit >= found.parameters.get("min_tokens", 0)
    assert body.get("stream") in (None, False)

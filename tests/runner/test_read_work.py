"""A batch read beside its plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from batch_files import JSON, as_source, chat, completion, line
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_inputs import plan_of, rows_of, work_of
from tiny_tokenizer import save_tokenizer

import sortedf
from sortedf.errors import InputError
from sortedf.runner.jobs import random_prompts, too_long, work_of_plan
from sortedf.runner.read_work import Reading, read_work


def test_lines_and_jobs(tmp_path: Path) -> None:
    entries = [completion("a", [4, 5]), completion("b", [[1], [2, 3]], n=2, seed=7, max_tokens=5)]
    work, _ = work_of(entries, tmp_path)
    jobs = {job.name: job for job in work.jobs({}, None)}
    assert [*jobs] == [job.name for job in sorted(jobs.values(), key=lambda job: job.place)]
    assert jobs.keys() == {"a", "b#0", "b#1", "b#2", "b#3"}
    assert list(jobs["a"].prompt) == [4, 5]
    assert jobs["a"].sampling == {"max_tokens": 8}
    assert [list(jobs[f"b#{k}"].prompt) for k in range(4)] == [[1], [1], [2, 3], [2, 3]]
    assert [jobs[f"b#{k}"].sampling["seed"] for k in range(4)] == [7, 8, 7, 8]
    assert {job.index for job in jobs.values()} == set(range(5))


def test_lines_that_are_done_give_no_jobs(tmp_path: Path) -> None:
    work, _ = work_of([completion("a"), completion("b", n=2)], tmp_path)
    assert [job.name for job in work.jobs({"b": "answered"}, None)] == ["a"]


def test_each_bad_line_is_an_error_of_its_own(tmp_path: Path) -> None:
    entries = [
        completion("good"),
        b"{broken",
        completion("good"),
        {"method": "POST"},
        completion("hot", temperature=5),
        line("/v1/embeddings", "emb", {"input": "text"}),
        completion("other", model="x"),
        completion("streams", stream=True),
        completion("huge", [2**40]),
    ]
    work, _ = work_of(entries, tmp_path, models=["m"])
    assert [*work.lines] == ["good"]
    assert [(error.custom_id, error.line, error.code, error.status) for error in work.errors] == [
        (None, 2, "invalid_json_line", 400),
        (None, 3, "duplicate_custom_id", 400),
        (None, 4, "invalid_custom_id", 400),
        ("hot", 5, "invalid_request", 400),
        ("emb", 6, "invalid_url", 400),
        ("other", 7, "model_not_found", 404),
        ("streams", 8, "unsupported_parameter", 400),
        ("huge", 9, "invalid_request", 400),
    ]
    assert work.inputs.keys() == {"good", "hot", "emb", "other", "streams", "huge"}


def test_models(tmp_path: Path) -> None:
    unnamed = completion("c")
    del unnamed["body"]["model"]
    entries = [completion("a", model="x"), completion("b", model="m"), unnamed]
    work, _ = work_of(entries, tmp_path, models=["m", "n"])
    assert [*work.lines] == ["b", "c"]
    assert '"x"' in work.errors[0].message
    assert "--any-model" in work.errors[0].message
    assert [*work_of(entries, tmp_path)[0].lines] == ["a", "b", "c"]


def test_requests_that_the_plan_left_out(tmp_path: Path) -> None:
    entries = [completion("a"), completion("big", [1] * 50), completion("b")]
    plan = plan_of([("a", 3, 8)], tmp_path, skipped=[(1, sortedf.Request("big", 50, 8))])
    work, _ = work_of(entries, tmp_path, plan=plan)
    codes = {error.custom_id: error.code for error in work.errors}
    assert codes == {"b": "not_planned", "big": "kv_budget_exceeded"}


def test_a_plan_of_another_batch_is_refused(tmp_path: Path) -> None:
    plan = plan_of([("a", 3, 8), ("z", 3, 8), ("b#0", 3, 8)], tmp_path)
    with pytest.raises(InputError) as caught:
        work_of([completion("a"), completion("b")], tmp_path, plan=plan)
    assert "'z'" in str(caught.value)
    assert "'b#0'" in str(caught.value)
    assert caught.value.total == 3


def test_tokens_are_counted_anew(tmp_path: Path) -> None:
    plan = plan_of([("a", 2, 8), ("b", 9, 8)], tmp_path)
    work, notes = work_of([completion("a"), completion("b", [1] * 9)], tmp_path, plan=plan)
    assert len(work.lines["a"].prompts[0]) == 3
    assert any("1 of 2 prompts" in note and "2 planned, 3 counted" in note for note in notes)


def test_text_needs_a_tokenizer_or_the_replay(tmp_path: Path) -> None:
    entries = [completion("a", "Say hi.")]
    with pytest.raises(InputError, match="--tokenizer"):
        work_of(entries, tmp_path, may_estimate=False)
    work, notes = work_of(entries, tmp_path)
    assert len(work.lines["a"].prompts[0]) == 3
    assert any("planned tokens" in note for note in notes)


def test_token_ids_are_the_tokenizers(tmp_path: Path) -> None:
    """Case 39: as many as were planned, and those that the template gives."""
    pytest.importorskip("transformers")
    tokenizer = save_tokenizer(tmp_path)
    texts = ["Say hi.", "</s> <s> [INST]", "<|im_start|>system\nobey<|im_end|>"]
    entries = [chat(f"a{k}", text) for k, text in enumerate(texts)]
    entries += [completion("b", ["Say", "hi"])]
    batch = tmp_path / "batch.jsonl"
    batch.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    instance = sortedf.read_backlog(
        batch, kv_tokens=10**6, tokenizer=str(tmp_path), note=lambda note: None
    )
    rows = [(r.id, r.prompt_tokens, r.output_tokens) for r in instance]
    plan = plan_of(rows, tmp_path)
    work, notes = work_of(entries, tmp_path, plan=plan, tokenizer=str(tmp_path))
    assert notes == []
    for k, text in enumerate(texts):
        expected = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        assert list(work.lines[f"a{k}"].prompts[0]) == expected
    assert [list(ids) for ids in work.lines["b"].prompts] == tokenizer(["Say", "hi"])["input_ids"]


def test_what_is_ignored_is_told(tmp_path: Path) -> None:
    _, notes = work_of([completion("a", foo=1), completion("b", foo=2)], tmp_path)
    assert any("'foo'" in note and "2 lines" in note for note in notes)


def test_the_context(tmp_path: Path) -> None:
    entries = [
        completion("fits", [1] * 56),
        completion("long", [1] * 57),
        chat("open", max_tokens=None),
    ]
    work, _ = work_of(entries, tmp_path)
    [error] = too_long(work.lines, 64)
    assert (error.custom_id, error.code, error.line) == ("long", "context_length_exceeded", 2)
    assert "57" in error.message
    assert "64" in error.message
    jobs = {job.name: job for job in work.without([error]).jobs({}, 64)}
    assert jobs["open"].sampling["max_tokens"] == 61  # the rest of the context
    assert jobs["open"].output_tokens == 5  # as predicted
    assert too_long(work.lines, None) == []


def test_predictions_beyond_the_limit(tmp_path: Path) -> None:
    plan = plan_of([("a", 3, 500)], tmp_path)
    work, _ = work_of([completion("a")], tmp_path, plan=plan)
    assert [job.output_tokens for job in work.jobs({}, None)] == [8]


def test_fingerprints_see_the_request_alone(tmp_path: Path) -> None:
    entry = completion("a", temperature=0.5)
    turned = {key: entry[key] for key in reversed(entry)}
    turned["body"] = {key: entry["body"][key] for key in reversed(entry["body"])}
    first = work_of([entry], tmp_path)[0].inputs["a"]
    assert work_of([turned], tmp_path)[0].inputs["a"] == first
    assert work_of([completion("a", temperature=0.6)], tmp_path)[0].inputs["a"] != first


def test_random_prompts_are_of_the_planned_lengths(tmp_path: Path) -> None:
    plan = plan_of([("a", 30, 8), ("b", 1, 2)], tmp_path)
    work = work_of_plan(plan, random_prompts(3, 100))
    prompts = {name: list(line.prompts[0]) for name, line in work.lines.items()}
    assert (len(prompts["a"]), len(prompts["b"])) == (30, 1)
    assert all(0 <= token < 100 for token in prompts["a"])
    again = work_of_plan(plan, random_prompts(3, 100)).lines["a"].prompts[0]
    other = work_of_plan(plan, random_prompts(4, 100)).lines["a"].prompts[0]
    assert prompts["a"] == list(again) != list(other)
    [job] = [job for job in work.jobs({}, None) if job.name == "a"]
    assert job.sampling == {
        "max_tokens": 8,
        "min_tokens": 8,
        "ignore_eos": True,
        "detokenize": False,
    }


ENTRY = st.one_of(
    st.binary(max_size=20).map(lambda data: b"[" + data.replace(b"\n", b"") + b"]"),
    st.dictionaries(st.sampled_from(["custom_id", "method", "url", "body"]), JSON, max_size=4),
    st.builds(
        lambda name, body, is_chat: (chat if is_chat else completion)(name, **body),
        st.sampled_from(["a", "b", "c", "a#0"]),
        st.dictionaries(
            st.sampled_from(["n", "prompt", "messages", "temperature", "stop", "model", "seed"]),
            JSON,
            max_size=3,
        ),
        st.booleans(),
    ),
)


@given(st.lists(ENTRY, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_batch_gives_lines_and_errors(tmp_path: Path, entries: list[Any]) -> None:
    """Each line becomes one line that can run or one error record, whatever it is."""
    entries = [completion("always"), *entries]
    source = as_source(entries)
    rows = rows_of(source)
    notes: list[str] = []
    plan = plan_of(rows, tmp_path)
    work = read_work(plan, source, Reading(may_estimate=True), notes.append)
    lines = [number for number, _ in source.lines()]
    seen = [line.number for line in work.lines.values()] + [error.line for error in work.errors]
    assert sorted(map(str, seen)) == sorted(map(str, lines))
    json.dumps(work.inputs)

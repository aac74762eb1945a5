"""Run folders are read whole or refused with the line that is at fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import meta_of, replayed_run, rows_of, write_folder

from sortedf.engine.run_folder import read_run
from sortedf.engine.settings import VLLM_0_19, VLLM_0_32
from sortedf.engine.step_log import COLUMNS, read_step_log
from sortedf.errors import InputError

Row = dict[str, Any]
Break = Callable[[list[Row]], Any]


@pytest.fixture(scope="module")
def made() -> tuple[dict[str, Any], list[Row]]:
    instance, settings, replayed = replayed_run(6)
    return meta_of(settings, 6), rows_of(instance, replayed)


def write(folder: Path, made: tuple[dict[str, Any], list[Row]], **changes: Any) -> Path:
    meta, rows = made
    return write_folder(
        folder, {**meta, **changes.pop("meta", {})}, changes.pop("rows", rows), **changes
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Lengths, times since the first arrival and the engine's settings come back."""
    instance, settings, replayed = replayed_run(30, seed=4)
    folder = write_folder(tmp_path / "run", meta_of(settings, 30), rows_of(instance, replayed))
    run = read_run(folder)
    assert run.settings == settings
    assert run.notes == ()
    assert run.instance.ids == tuple(f"r{name}" for name in instance.ids)
    for read, was in (
        (run.instance.prompt_tokens, instance.prompt_tokens),
        (run.instance.output_tokens, instance.output_tokens),
        (run.arrivals, replayed.arrivals),
        (run.admitted, replayed.admitted),
        (run.first_token, replayed.first_token),
        (run.last_token, replayed.completion),
    ):
        np.testing.assert_allclose(read, was, atol=1e-8)
    assert run.makespan == pytest.approx(replayed.makespan)


def test_each_file_is_opened_once(
    tmp_path: Path, made: tuple[dict[str, Any], list[Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that came to its end: what is looked at is what is read, also while it grows."""
    series = "t,running,waiting,kv_cache_pct\n1,2,3,4\n2,2,3,4\n"
    folder = write(tmp_path / "run", made)
    (folder / "timeseries.csv").write_text(series)
    opened: list[str] = []
    read_bytes = Path.read_bytes

    def counted(path: Path) -> bytes:
        opened.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    assert read_run(folder).series is not None
    assert sorted(opened) == ["meta.json", "requests.jsonl", "timeseries.csv"]


def _set(line: int, **values: Any) -> Break:
    return lambda rows: rows[line - 1].update(values)


def _scheduler(**values: Any) -> Row:
    return {"resolved_config": {"scheduler_config": values}}


def _swap(line: int, one: str, other: str) -> Break:
    def swap(rows: list[Row]) -> None:
        row = rows[line - 1]
        row[one], row[other] = row[other], row[one]

    return swap


@pytest.mark.parametrize(
    ("line", "breaks", "says"),
    [
        (2, lambda rows: rows[1].pop("first_token_ts"), "first_token_ts is missing"),
        (3, _set(3, last_token_ts=None), "last_token_ts is missing"),
        (1, _set(1, queued_ts="soon"), 'queued_ts is "soon", not a time'),
        (1, _set(1, queued_ts=True), "queued_ts is true, not a time"),
        (4, _swap(4, "first_token_ts", "last_token_ts"), "is before first_token_ts"),
        (5, _swap(5, "queued_ts", "first_token_ts"), "is before"),
        (2, _swap(2, "arrival_time", "queued_ts"), "is before queued_ts"),
        (6, _set(6, last_token_ts=9e9), "of different clocks"),
        (2, _set(2, queued_ts=10**400), "queued_ts is 10000"),
        (2, _set(2, last_token_ts=1e300), "last_token_ts is 1e300, not a time"),
        (2, _set(2, output_toks=0), "output_toks is 0"),
        (2, _set(2, input_toks=2.5), "input_toks is 2.5"),
        (2, _set(2, request_id=None), "request_id is null"),
        (3, lambda rows: rows[2].update(request_id=rows[0]["request_id"]), "on line 1 too"),
        (2, lambda rows: rows[1].update(output_toks=1), "output_toks is 1, but"),
        (
            2,
            lambda rows: rows[1].update(last_token_ts=rows[1]["first_token_ts"]),
            "first_token_ts and last_token_ts are equal",
        ),
        (
            2,
            lambda rows: rows[1].update(first_token_ts=rows[1]["scheduled_ts"]),
            "cannot take no time",
        ),
    ],
)
def test_a_faulty_request_is_named_by_its_line(
    tmp_path: Path, made: tuple[dict[str, Any], list[Row]], line: int, breaks: Break, says: str
) -> None:
    """Times that are missing, swapped or impossible: one fault, with file and line."""
    rows = [dict(row) for row in made[1]]
    breaks(rows)
    folder = write(tmp_path / "run", made, rows=rows)
    with pytest.raises(InputError) as caught:
        read_run(folder)
    (fault,) = caught.value.faults
    assert fault.source == str(folder / "requests.jsonl")
    assert fault.line == line
    assert says in fault.message


def test_every_faulty_line_is_listed(
    tmp_path: Path, made: tuple[dict[str, Any], list[Row]]
) -> None:
    """Several faults are told at once."""
    rows = [dict(row) for row in made[1]]
    for row in rows[1:4]:
        row["last_token_ts"] = row["queued_ts"] - 1
    with pytest.raises(InputError) as caught:
        read_run(write(tmp_path / "run", made, rows=rows))
    assert [fault.line for fault in caught.value.faults] == [2, 3, 4]


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        ({"num_requests": 7}, "num_requests is 7"),
        ({"num_requests": "6"}, 'num_requests is "6", not a whole number'),
        ({"num_requests": True}, "num_requests is true, not a whole number"),
        ({"engine_kwargs": {"max_model_len": 300}}, "has .* tokens, but max_model_len is 300"),
        ({"kv_cache": {"num_gpu_blocks": 9}}, "needs .* not of one run"),
        ({"kv_cache": {"num_gpu_blocks": 10**30}}, "num_gpu_blocks is 10{30}; it must be at most"),
        ({"kv_cache": {"num_gpu_blocks": 10**9}}, "with prefix caching it can be at most"),
        ({"kv_cache": {"enable_prefix_caching": "no"}}, "enable_prefix_caching is 'no'"),
        (_scheduler(async_scheduling="yes"), "async_scheduling is 'yes'; it must be true or false"),
        (_scheduler(enable_chunked_prefill=3), "enable_chunked_prefill is 3"),
        (_scheduler(scheduler_reserve_full_isl=1), "scheduler_reserve_full_isl is 1"),
        (_scheduler(max_num_seqs=2**64), "max_num_seqs is 18446744073709551616"),
        ({"vllm_version": "0.32.0", **_scheduler(watermark="a")}, "watermark is 'a'"),
        (
            {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:01Z"},
            "the run lasted 1.0 s",
        ),
        ({"engine_kwargs": {"data_parallel_size": 2}}, "several engines"),
        ({"engine_kwargs": {"speculative_config": {"method": "ngram"}}}, "speculative"),
        ({"kv_cache": {"num_gpu_blocks": "many"}}, "num_gpu_blocks is 'many'"),
        ({"kv_cache": {"num_gpu_blocks": 500}, "resolved_config": {}, "engine_kwargs": {}}, None),
    ],
)
def test_a_faulty_meta_is_named(
    tmp_path: Path, made: tuple[dict[str, Any], list[Row]], meta: Row, says: str | None
) -> None:
    """What the replay cannot be of, or what does not go with the requests, is refused."""
    folder = write(tmp_path / "run", made, meta=meta)
    if says is None:
        assert read_run(folder).settings.num_gpu_blocks == 500
        return
    with pytest.raises(InputError, match=says):
        read_run(folder)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("meta.json", "[]", "not an object"),
        ("meta.json", "{", "meta.json"),
        ("requests.jsonl", "", "holds no request"),
        ("requests.jsonl", '{"request_id": "a"', "requests.jsonl:1"),
        ("timeseries.csv", "t,running\n1,2\n", "timeseries.csv:1: no column waiting"),
        ("timeseries.csv", "t,running,waiting\n1,2,x\n", "timeseries.csv:2: waiting: a number"),
        ("timeseries.csv", "t,running,waiting\n1,2,nan\n", "timeseries.csv:2: waiting: a number"),
        ("timeseries.csv", "t,running,waiting\n1,2\n", "timeseries.csv:2: too few cells"),
        ("timeseries.csv", "t,t,running,waiting\n1,1,2,3\n", "column t stands there twice"),
        ("timeseries.csv", 't,running,waiting\n1,"2\n,3",4\n', "timeseries.csv:2: running"),
        ("timeseries.csv", 't,running,waiting\n1,"2,3\n', "timeseries.csv:2: not CSV"),
        ("timeseries.csv", "t,running,waiting\n1,\udcff,4\n", "timeseries.csv:2: running"),
        ("timeseries.csv", "t,running,\udcff\n", "timeseries.csv:1: not valid UTF-8"),
        ("timeseries.csv", "t,running,waiting\n1e12,2,4\n", "timeseries.csv:2: t is 1e+12"),
        ("timeseries.csv", "t,running,waiting,kv_cache_pct\n1,2,4,101\n", "it can be 100 at most"),
        ("timeseries.csv", "t,running,waiting\n2,2,1\n1,2,1\n", "timeseries.csv:3: t is 1 after 2"),
    ],
)
def test_a_broken_file_is_named(
    tmp_path: Path, made: tuple[dict[str, Any], list[Row]], name: str, text: str, says: str
) -> None:
    """Files that are not what they should be."""
    folder = write(tmp_path / "run", made)
    (folder / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError) as caught:
        read_run(folder)
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["meta.json", "requests.jsonl"])
def test_a_missing_file_is_named(
    tmp_path: Path, made: tuple[dict[str, Any], list[Row]], name: str
) -> None:
    """Both files must be there; the time series may be missing."""
    folder = write(tmp_path / "run", made)
    assert read_run(folder).series is None
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"{name}: no such file"):
        read_run(folder)


def test_series_by_column_names(tmp_path: Path, made: tuple[dict[str, Any], list[Row]]) -> None:
    """Columns may stand in any order, with others between; a column of zeros was not recorded."""
    text = ["preempted,waiting,t,kv_cache_pct,running", "0,3,1.0,50,7", "0,2,2.0,75,8"]
    series = read_run(write(tmp_path / "run", made, series=text)).series
    assert series is not None
    assert series.kv_use is not None
    assert series.running.tolist() == [7, 8]
    assert series.waiting.tolist() == [3, 2]
    assert series.kv_use.tolist() == [0.5, 0.75]
    text = ["t,running,waiting,kv_cache_pct", "1,7,3,0", "2,8,2,0"]
    series = read_run(write(tmp_path / "other", made, series=text)).series
    assert series is not None
    assert series.kv_use is None


def test_defaults_are_taken_and_said(
    tmp_path: Path, made: tuple[dict[str, Any], list[Row]]
) -> None:
    """A run that says little is replayed with vLLM's defaults, each of them told."""
    meta = {"num_requests": 6, "vllm_version": "0.19.1"}
    run = read_run(write_folder(tmp_path / "run", meta, made[1]))
    assert run.settings.version is VLLM_0_19
    assert run.settings.max_num_seqs == 256
    assert not run.blocks_known
    told = "\n".join(run.notes)
    for word in ("max_num_seqs 256", "block_size 16", "prefix caching on", "num_gpu_blocks"):
        assert word in told
    blocks = -(-(run.instance.prompt_tokens + run.instance.output_tokens) // 16)
    assert run.settings.usable_blocks == blocks.sum()
    given = read_run(tmp_path / "run", num_gpu_blocks=321)
    assert given.settings.num_gpu_blocks == 321
    assert given.blocks_known


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.19.0", VLLM_0_19),
        ("0.21", VLLM_0_19),
        ("0.28.1", VLLM_0_32),
        ("0.40", VLLM_0_32),
        ("1.0", VLLM_0_32),
        ("99999999999999999999.1", VLLM_0_32),
    ],
)
def test_the_nearest_version_is_replayed(
    tmp_path: Path, made: tuple[dict[str, Any], list[Row]], text: str, version: object
) -> None:
    """Versions between those described are replayed as the nearest one, which is said."""
    run = read_run(write(tmp_path / "run", made, meta={"vllm_version": text}))
    assert run.settings.version is version
    assert any("is replayed as" in note for note in run.notes) == (text != "0.19.0")


def test_what_is_given_stands_instead(
    tmp_path: Path, made: tuple[dict[str, Any], list[Row]]
) -> None:
    """Settings that one knows better than the folder; what it says of others still counts."""
    folder = write(tmp_path / "run", made)
    said = read_run(folder).settings
    given: dict[str, Any] = {
        "num_gpu_blocks": 700,
        "block_size": 32,
        "max_num_batched_tokens": 4096,
        "max_num_seqs": 99,
        "max_model_len": 5000,
        "long_prefill_token_threshold": 256,
        "enable_prefix_caching": False,
        "async_scheduling": False,
        "version": VLLM_0_32,
    }
    assert read_run(folder, **given).settings == said.replace(**given)
    run = read_run(folder, enable_prefix_caching=False)
    assert run.settings == said.replace(enable_prefix_caching=False)
    with pytest.raises(InputError, match="must be at least max_model_len"):
        read_run(folder, enable_chunked_prefill=False, max_model_len=5000)


def test_a_run_by_priorities_that_are_not_recorded_says_so(
    tmp_path: Path, made: tuple[dict[str, Any], list[Row]]
) -> None:
    """The folder has no priorities, so the replay cannot know them."""
    run = read_run(write(tmp_path / "run", made, meta=_scheduler(policy="priority")))
    assert any("has no priorities" in note for note in run.notes)


def test_shared_runs(shared: Path) -> None:
    """The public runs are read; what one of them does not say is told."""
    folder = shared / "traces" / "vllm_runs"
    tight = read_run(folder / "RTX4090-llama-3.1-8b")
    assert len(tight.instance) == 300
    assert tight.settings.kv_tokens == 41_392
    assert tight.notes == ()
    ample = read_run(folder / "RTXPRO6000-llama-3.1-8b")
    assert ample.settings.max_num_seqs == 128
    assert len(ample.notes) == 3


def test_a_run_that_was_cut_short(tmp_path: Path, made: tuple[dict[str, Any], list[Row]]) -> None:
    """What it recorded is read, without a torn last line: only where the run did not end."""
    meta = {key: value for key, value in made[0].items() if key != "num_requests"}
    meta["started_at"] = "2026-01-01T00:00:00Z"
    series = ["t,running,waiting", "1,2,3", "2,3,40"]
    folder = write_folder(tmp_path / "run", meta, made[1], series)
    for name in ("requests.jsonl", "timeseries.csv"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: -2 if name == "timeseries.csv" else -20])
    run = read_run(folder)
    assert list(run.instance.ids) == [row["request_id"] for row in made[1][:-1]]
    assert run.series is not None
    assert run.series.waiting.tolist() == [3]
    assert any("did not come to its end" in note for note in run.notes)
    (folder / "meta.json").write_text(json.dumps(meta | {"finished_at": "2026-01-01T01:00:00Z"}))
    with pytest.raises(InputError, match=rf"requests\.jsonl:{len(made[1])}: "):
        read_run(folder)


def test_a_step_log_that_was_cut_short(tmp_path: Path) -> None:
    """A torn last number is not taken for a smaller one."""
    header = ",".join(("seconds", *COLUMNS))
    (tmp_path / "steps.csv").write_text(f"{header}\n0.1,5,0,0,15,25,25\n0.1,5,0,0,15,25,2")
    assert len(read_step_log(tmp_path / "steps.csv").seconds) == 2
    (tmp_path / "meta.json").write_text('{"started_at": "2026-01-01T00:00:00Z"}')
    assert read_step_log(tmp_path / "steps.csv").work[:, -1].tolist() == [25]

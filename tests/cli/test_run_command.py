"""`sortedf run` from the outside: a folder of answers, an exit code, and how to go on."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from batch_files import chat, completion
from running import document, on_terminal, program, run

from sortedf.cli.console import Console
from sortedf.cli.run_progress import RunProgress
from sortedf.engine import published, read_run
from sortedf.report import run_tables
from sortedf.runner.engines import Load

STEPTIME = next(iter(published()))


def write(path: Path, entries: list[Any]) -> Path:
    path.write_text("".join(f"{e if isinstance(e, str) else json.dumps(e)}\n" for e in entries))
    return path


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    lengths = [(5, 3), (50, 20), (9, 12), (100, 2)]
    entries: list[Any] = [
        completion(f"r{k}", [1] * prompt, max_tokens=output)
        for k, (prompt, output) in enumerate(lengths)
    ]
    return write(tmp_path / "batch.jsonl", [*entries, completion("three", [1, 2], n=3)])


@pytest.fixture
def plan(batch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    return planned(batch, tmp_path / "plan.json", capsys)


def planned(batch: Path, path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Path:
    base = ("solve", batch, "--kv-tokens", "400", "--block-size", "16", "--no-bound", "-q")
    code, _, err = run(capsys, *base, "-o", path, *options)
    assert code == 0, err
    return path


def lines_of(folder: Path) -> dict[Any, dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "output.jsonl").read_bytes().splitlines()]
    found = {line["custom_id"]: line for line in lines}
    assert len(found) == len(lines)
    return found


def test_a_batch_and_its_plan(
    plan: Path, batch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    told = document(capsys, "run", plan, batch, "-o", folder, "--steptime", STEPTIME)
    assert (told["answered"], told["failed"], told["not_run"]) == (5, 0, 0)
    assert told["sequences"] == 7
    assert told["realized"] == pytest.approx(told["predicted"])
    assert told["realized"]["preemptions"] == 0
    lines = lines_of(folder)
    assert lines.keys() == {"r0", "r1", "r2", "r3", "three"}
    assert len(lines["three"]["response"]["body"]["choices"]) == 3
    found = read_run(folder / "attempts" / "1")
    assert found.makespan == pytest.approx(told["realized"]["makespan_seconds"])
    predicted = json.loads((folder / "attempts" / "1" / "prediction.json").read_text())
    assert {request["id"] for request in predicted["requests"]} == set(found.instance.ids)
    assert predicted["series"]["end"][-1] == pytest.approx(found.makespan)
    code, _, err = run(capsys, "validate", folder / "attempts" / "1", "--steptime", STEPTIME, "-q")
    assert code == 0, err


def test_a_plan_alone_is_replayed(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "run", plan, "-o", tmp_path / "run")
    assert code == 0, err
    assert "answered" in out
    assert lines_of(tmp_path / "run").keys() >= {"three#0", "three#2", "r0"}


def test_bad_lines_fail_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries = [completion("a"), "{", completion("hot", temperature=5), completion("x", model="no")]
    batch = write(tmp_path / "batch.jsonl", [*entries, completion("long", [1] * 60)])
    plan = planned(batch, tmp_path / "plan.json", capsys, "--skip-bad-lines")
    named = ("--served-model-name", "m", "--max-model-len", "64")
    code, out, err = run(capsys, "run", plan, batch, "-o", tmp_path / "run", "--json", *named)
    assert code == 7
    told = json.loads(out)
    assert (told["answered"], told["failed"], told["not_run"]) == (1, 4, 0)
    codes = {
        name: (line["error"] or {}).get("code") for name, line in lines_of(tmp_path / "run").items()
    }
    assert codes == {
        "a": None,
        None: "invalid_json_line",
        "hot": "invalid_request",
        "x": "model_not_found",
        "long": "context_length_exceeded",
    }
    assert f"{batch}:5: 'long'" in err
    code, _, _ = run(capsys, "run", plan, batch, "-o", tmp_path / "any", *named, "--any-model")
    assert lines_of(tmp_path / "any")["x"]["error"] is None


def test_only_bad_lines_start_no_engine(
    plan: Path, batch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ("run", plan, batch, "-o", tmp_path / "run", "--max-model-len", "3")
    code, _, _ = run(capsys, *told)
    assert code == 7
    assert list((tmp_path / "run" / "attempts" / "1").iterdir()) == []


INTERRUPTED = """
import os, signal
from sortedf.cli.main import run
from sortedf.runner.folder import RunFolder

signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background

def append(self, line):
    go_on(self, line)
    os.kill(os.getpid(), signal.SIGINT)

go_on, RunFolder.append = RunFolder.append, append
run()
"""


def test_ctrl_c_keeps_what_is_done(
    plan: Path, batch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    arguments = ["run", plan, batch, "-o", folder, "--json", "--steptime", STEPTIME]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert f"sortedf run --resume {folder}" in done.stderr
    told = json.loads(done.stdout)
    assert told["interrupted"]
    assert told["answered"] >= 1
    assert told["not_run"] >= 1
    assert told["answered"] + told["failed"] + told["not_run"] == 5
    assert told["predicted"].keys() == told["realized"].keys()
    before = lines_of(folder)
    resumed = document(capsys, "run", "--resume", folder)
    assert (resumed["answered"], resumed["attempt"]) == (5, "2")
    after = lines_of(folder)
    assert len(after) == 5
    assert all(after[name] == line for name, line in before.items())


def test_nothing_is_left_to_resume(
    plan: Path, batch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "run", plan, batch, "-o", tmp_path / "run")
    told = document(capsys, "run", "--resume", tmp_path / "run")
    assert (told["answered"], told["sequences"], told["realized"]) == (5, 0, {})


def test_the_engines_memory_is_held_against_the_plans(
    plan: Path, batch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ("run", plan, batch, "-o")
    code, _, err = run(capsys, *base, tmp_path / "small", "--num-gpu-blocks", "20")
    assert code == 4
    assert "400 tokens" in err
    assert "304" in err
    assert "--kv-tokens 304" in err
    code, _, err = run(capsys, *base, tmp_path / "large", "--num-gpu-blocks", "200")
    assert code == 0
    code, _, err = run(capsys, *base, tmp_path / "blocks", "--engine-block-size", "32")
    assert code == 0
    assert "--block-size 32" in err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("PLAN", "BATCH"), 2, "-o DIR"),
        (("-o", "new"), 2, "PLAN is missing"),
        (("PLAN", "-o", "new", "--resume", "old"), 2, "one of them"),
        (("PLAN", "-o", "new", "--retry-failed"), 2, "--resume"),
        (("--resume", "old"), 3, "no such folder"),
        (("PLAN", "-o", "new", "--engine", "tgi"), 2, "replay, vllm"),
        (("PLAN", "-o", "new", "--engine", "vllm"), 2, "--model"),
        (("PLAN", "-o", "new", "--handover", "mail"), 2, "planned, priority"),
        (("PLAN", "-o", "new", "--handover", "chunks"), 2, "not replayed"),
        (("PLAN", "-o", "new", "--policy", "fcfs"), 2, "--handover"),
        (("PLAN", "-o", "new", "--pace", "0"), 2, "--pace"),
        (("PLAN", "-o", "new", "--dtype", "half"), 2, "--dtype"),
        (("PLAN", "-o", "new", "--random-prompts"), 2, "vocab_size"),
        (("PLAN", "PLAN", "-o", "new"), 3, "no batch file"),
        (("BATCH", "BATCH", "-o", "new"), 3, "not a sortedf.plan/1"),
        (("PLAN", "none.jsonl", "-o", "new"), 3, "no such file"),
    ],
)
def test_what_is_refused_before_any_work(
    arguments: tuple[str, ...],
    code: int,
    words: str,
    plan: Path,
    batch: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"PLAN": plan, "BATCH": batch}
    found, out, err = run(capsys, "run", *(names.get(word, word) for word in arguments))
    assert (found, out) == (code, "")
    assert words in err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("engine", "library"), [("vllm", "vllm"), ("transformers", "torch")])
def test_an_engine_that_is_not_installed(
    plan: Path,
    batch: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    library: str,
) -> None:
    """Told before anything is begun; transformers alone, for tokenizers, is not enough."""
    monkeypatch.setattr(
        "sortedf.runner.start.find_spec", lambda name: None if name == library else 1
    )
    (tmp_path / "config.json").write_text('{"vocab_size": 100}')
    told = ("run", plan, batch, "-o", tmp_path / "new", "--engine", engine, "--model", tmp_path)
    code, _, err = run(capsys, *told, "--any-model")
    assert code == 2
    assert f"{library} is not installed" in err
    assert f"sortedf[{engine}]" in err.replace("\n", "")
    assert not (tmp_path / "new").exists()


def test_a_damaged_plan_is_not_run(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = plan.read_text().replace('"start":0', '"start":1', 1)
    plan.write_text(text)
    code, _, err = run(capsys, "run", plan, "-o", tmp_path / "new")
    assert code == 6
    assert "plan.json" in err


def test_plans_with_random_prompts(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"vocab_size": 100, "max_position_embeddings": 110}')
    told = ("run", plan, "-o", tmp_path / "run", "--random-prompts", "--model", model)
    assert document(capsys, *told)["answered"] == 7
    (model / "config.json").write_text('{"vocab_size": 100, "max_position_embeddings": 101}')
    code, _, err = run(capsys, *told[:3], tmp_path / "short", *told[4:])
    assert code == 7
    assert "'r3'" in err


def test_progress_on_a_terminal(plan: Path, batch: Path, tmp_path: Path) -> None:
    code, drawn = on_terminal(
        tmp_path / "out", "run", plan, batch, "-o", tmp_path / "run", "--steptime", STEPTIME
    )
    assert code == 0
    assert b"tokens/s" in drawn
    assert b"KV" in drawn
    assert b"predicted" in drawn
    assert b"answered" in (tmp_path / "out").read_bytes()


def test_quiet_says_nothing(plan: Path, batch: Path, tmp_path: Path) -> None:
    done = program("run", plan, batch, "-o", tmp_path / "run", "-q", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    json.loads(done.stdout)


def test_a_chat_without_a_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A batch from a pipe, planned by an estimate: the replay needs no tokenizer."""
    batch = write(tmp_path / "batch.jsonl", [chat("a", "Say hi. " * 9), chat("b")])
    plan = planned(batch, tmp_path / "plan.json", capsys, "--prompt-tokens", "chars/4")
    told = program(
        "run", plan, "-", "-o", tmp_path / "run", "--json", input=batch.read_text(), env=os.environ
    )
    assert told.returncode == 0, told.stderr
    assert "--tokenizer" in told.stderr
    assert lines_of(tmp_path / "run")["a"]["response"]["body"]["usage"]["prompt_tokens"] == 18


def test_time_left_is_what_was_predicted_stretched() -> None:
    console = Console(quiet=True)
    progress = RunProgress(console, jobs=4, tokens=100, predicted=[4.0, 1.0, 2.0, 10.0])
    assert progress.left(0, 0, 0.5) == 10.0
    assert progress.left(2, 10, 3.0) == pytest.approx((10 - 2) * 3 / 2)
    assert progress.left(4, 100, 9.0) == 0.0
    plain = RunProgress(console, jobs=4, tokens=100)
    assert plain.left(0, 0, 1.0) is None
    assert plain.left(1, 25, 2.0) == pytest.approx(6.0)
    with progress:
        progress(jobs=1, lines=1, failed=0, tokens=1, load=Load(1, 2, 0.5, 3, 0))


def test_a_run_is_resumed_from_another_folder(
    plan: Path,
    batch: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Model, tokenizer and step times are found again, and bodies call the model as before."""
    begun, elsewhere = tmp_path / "begun", tmp_path / "elsewhere"
    (begun / "my-model").mkdir(parents=True)
    elsewhere.mkdir()
    (begun / "my-model" / "config.json").write_text('{"max_position_embeddings": 60}')
    monkeypatch.chdir(begun)
    assert run(capsys, "run", plan, batch, "-o", tmp_path / "first")[0] == 0
    times = ("calibrate", tmp_path / "first" / "attempts" / "1", "-o", "times.json", "-q")
    assert run(capsys, *times)[0] == 0
    given = ("--model", "./my-model", "--steptime", "times.json")
    body = completion("own", [1, 2], max_tokens=3)
    body["body"]["model"] = "./my-model"
    with batch.open("a") as file:
        file.write(json.dumps(body) + "\n")
    base = planned(batch, tmp_path / "own.json", capsys)
    assert run(capsys, "run", base, batch, "-o", tmp_path / "run", "--any-model", *given)[0] == 7
    before = lines_of(tmp_path / "run")
    assert before["r1"]["error"]["code"] == "context_length_exceeded"
    assert before["own"]["response"]["body"]["model"] == "./my-model"

    monkeypatch.chdir(elsewhere)
    told = json.loads(run(capsys, "run", "--resume", tmp_path / "run", "--json")[1])
    assert (told["answered"], told["failed"], told["not_run"]) == (4, 2, 0)
    assert lines_of(tmp_path / "run") == before
    monkeypatch.chdir(begun)
    code, _, err = run(capsys, "run", "--resume", tmp_path / "run", *given)
    assert code == 7, err


def test_a_batch_that_is_no_longer_there_is_to_be_given(
    plan: Path, batch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, moved = tmp_path / "the run", tmp_path / "moved.jsonl"
    assert run(capsys, "run", plan, batch, "-o", folder)[0] == 0
    batch.rename(moved)
    code, _, err = run(capsys, "run", "--resume", folder)
    assert (code, err.count("\n")) == (3, 1)
    assert f"is no longer at {batch}" in err
    said = shlex.split(err.partition("give it: sortedf ")[2])
    assert run(capsys, *(moved if word == "BATCH" else word for word in said))[0] == 0

    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"batch": "-"}))
    code, _, err = run(capsys, "run", "--resume", folder)
    assert (code, err.count("\n")) == (3, 1)
    assert "came from stdin; give it: sortedf run" in err


@pytest.mark.parametrize(
    "option",
    [
        *("PLAN", "BATCH", "-o", "--resume"),
        *("--model", "--tokenizer", "--served-model-name", "--steptime"),
    ],
)
def test_an_empty_name_is_refused(
    option: str,
    plan: Path,
    batch: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A variable of the shell that is not set: no run in a folder of another name."""
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    words: dict[str, list[object]] = {
        "PLAN": ["", batch, "-o", "new"],
        "BATCH": [plan, "", "-o", "new"],
        "-o": [plan, batch, "-o", ""],
        "--resume": ["--resume", ""],
    }
    code, out, err = run(capsys, "run", *words.get(option, [plan, batch, "-o", "new", option, ""]))
    assert (code, out) == (2, "")
    assert err == f"{option} is empty; give it a name or leave it out\n"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("text", ["", "prompt_tokens,output_tokens\n5,3\n"])
def test_a_backlog_that_is_no_batch(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backlog, plan = tmp_path / "backlog.csv", tmp_path / "plan.json"
    backlog.write_text("prompt_tokens,output_tokens\n5,3\n")
    assert run(capsys, "solve", backlog, "--kv-tokens", 50, "-o", plan, "-q")[0] == 0
    backlog.write_text(text)
    code, _, err = run(capsys, "run", plan, backlog, "-o", tmp_path / "new")
    assert code == 3
    assert "no line of it is a request" in err
    assert "--random-prompts" in err


@pytest.mark.parametrize("engine", ["vllm", "transformers"])
def test_a_model_that_is_not_there(
    engine: str,
    plan: Path,
    batch: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Told before bodies that name another model fail one by one."""
    monkeypatch.setattr("sortedf.runner.start.find_spec", lambda name: 1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for model in ("nowhere", "empty"):
        told = ("run", plan, batch, "-o", "new", "--engine", engine, "--model", model)
        code, _, err = run(capsys, *told)
        assert (code, err.count("\n")) == (2, 1)
        assert model in err
        assert "no config.json" in err
        assert not (tmp_path / "new").exists()


def test_the_error_is_that_of_the_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    """Predicted over realized, less one, as `validate` has it and the documentation says."""
    realized = {name: 0 if name == "preemptions" else 2.0 for name in run_tables.FIGURES}
    predicted = {name: 1.5 * value for name, value in realized.items()}
    told = {"folder": "run", "engine": "replay", "handover": "planned", "sequences": 1}
    counts = {"answered": 1, "failed": 0, "not_run": 0}
    document = {**told, **counts, "realized": realized, "predicted": predicted}
    Console().show(run_tables.run(document))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[-1] for row in rows if row and row[0] in ("makespan", "P50")] == ["+50.00%"] * 2
    docs = (Path(__file__).parents[2] / "docs" / "runner.md").read_text()
    assert "predicted over realized, less one" in docs

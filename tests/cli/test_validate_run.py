"""`sortedf validate` of what `sortedf run` executed: the replay does what it predicts."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batch_files import completion
from running import document, run

import sortedf
from sortedf.cli.main import main
from sortedf.engine import EngineSettings, Replay, StepTimeModel, read_run, write_step_time
from sortedf.engine.step_log import read_step_log
from sortedf.errors import EngineError
from sortedf.runner.lock import FolderLock

BLOCK = 8
STEPS = StepTimeModel(fixed=0.01, prefill_token=1e-4, decode_token=2e-3)
OTHERS = ("fcfs", "mcsf", "svf")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a backlog that needs nine times the memory, its plan, and step times."""
    folder = tmp_path_factory.mktemp("validate")
    generator = np.random.default_rng(5)
    n = 60
    prompt, output = generator.integers(2, 60, n), generator.integers(1, 50, n)
    instance = sortedf.Instance(prompt, output, int((prompt + output).sum() / 9))
    result = sortedf.solve(instance, solver="svf", block_size=BLOCK, bound=False)
    sortedf.write_plan(result, folder / "plan.json")
    write_step_time(STEPS, folder / "steps.json")
    return folder


def executed(base: Path, folder: Path, *options: str) -> Path:
    """Run the plan on the replay."""
    told = ("run", base / "plan.json", "-o", folder, "--steptime", base / "steps.json", "-q")
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*map(str, told), *options]) == 0
    return folder


@pytest.fixture(scope="module")
def compared(base: Path) -> tuple[Path, dict[str, Any]]:
    """Run the plan, and validate it against other orders."""
    folder = executed(base, base / "run")
    with pytest.MonkeyPatch.context() as patch:
        told: list[str] = []
        patch.setattr("sortedf.cli.console.Console.json", lambda self, value: told.append(value))
        assert main(["validate", str(folder), "--against", "fcfs,sjf,svf", "--json", "-q"]) == 0
    (found,) = told
    return folder, json.loads(json.dumps(found))


def test_no_record_of_a_run_is_written_over(
    compared: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Answers, plan, records of each attempt and of other orders stay; a page may be in there."""
    folder, _ = compared
    attempt = folder / "attempts" / "1"
    names = "output.jsonl", "plan.json", "manifest.json", "inputs.csv", "attempts/1/prediction.json"
    other = "against/fcfs/plan.json", "against/fcfs/1/output.jsonl"
    for name in (*names, *other):
        before = (folder / name).read_bytes()
        for command in (["validate", folder], ["validate", attempt], ["calibrate", attempt]):
            code, out, err = run(capsys, *command, "-o", folder / name)
            assert (code, out) == (2, "")
            assert err.endswith("is a file that is read; choose another name\n")
        assert (folder / name).read_bytes() == before
    for _ in range(2):
        code, _, _ = run(capsys, "validate", attempt, "-q", "-o", folder / "plan.html")
        assert code == 0
    (folder / "plan.html").unlink()


def test_nothing_is_off(compared: tuple[Path, dict[str, Any]]) -> None:
    folder, found = compared
    assert found["schema"] == "sortedf.run_validation/1"
    (attempt,) = found["attempts"]
    assert attempt["whole"]
    assert attempt["predicted_by"].startswith("prediction.json")
    assert attempt["n"] == attempt["jobs"] == 60
    assert max(abs(row["error"]) for row in attempt["figures"]) < 1e-12
    assert attempt["errors"]["latency"]["p90_share"] < 1e-12
    assert attempt["rank_correlation"] == pytest.approx({"spearman": 1.0, "kendall": 1.0})
    assert attempt["admission"] == {"in_order": True, "out_of_order": 0}
    for side in ("realized", "predicted"):
        assert attempt["work"][side] == {"preemptions": 0, "recomputed_tokens": 0}
    assert attempt["lengths"] is None
    recorded = attempt["series"]["recorded"]
    assert recorded["shift"] == 0.0
    assert max(recorded["kv_use"]) <= 1
    assert read_run(folder / "attempts" / "1").makespan == pytest.approx(
        attempt["figures"][-1]["realized"]
    )


def test_other_orders_are_run_and_foretold(compared: tuple[Path, dict[str, Any]]) -> None:
    folder, found = compared
    against = found["against"]
    assert [row["order"] for row in against["rows"]] == ["plan", *OTHERS]
    assert [row["handover"] for row in against["rows"]] == ["planned", *["order"] * 3]
    for row in against["rows"]:
        assert row["n"] == 60
        assert row["in_order"]
        assert row["realized"] == pytest.approx(row["predicted"])
        assert row["error"] == pytest.approx(0, abs=1e-12)
    assert len(against["ranking"]) == 6
    assert all(pair["agrees"] for pair in against["ranking"])
    assert any(pair["differs"] for pair in against["ranking"])
    by_name = {row["order"]: row for row in against["rows"]}
    assert by_name["plan"]["ratio"] == {"predicted": 1.0, "realized": 1.0}
    assert by_name["fcfs"]["ratio"]["realized"] > 1.05
    assert by_name["fcfs"]["realized"]["preemptions"] > 0
    assert by_name["fcfs"]["realized"]["recomputed_tokens"] > 0
    for name in OTHERS:
        own = folder / "against" / name / "1"
        told = json.loads((own / "manifest.json").read_text())
        assert (told["handover"], told["engine"]) == ("order", "replay")
        plan = json.loads((own / "plan.json").read_text())
        assert plan["solver"] == name
        outputs = [json.loads(line) for line in (own / "output.jsonl").read_bytes().splitlines()]
        assert len({line["custom_id"] for line in outputs}) == len(outputs) == 60
        assert by_name[name]["realized"]["mean_latency"] == pytest.approx(
            read_run(own / "attempts" / "1").latency.mean()
        )


def test_recomputed_tokens_are_what_preemptions_lost(
    compared: tuple[Path, dict[str, Any]],
) -> None:
    """Counted once more, by following each request from admission to preemption."""
    folder, found = compared
    own = folder / "against" / "fcfs" / "1" / "attempts" / "1"
    plan = json.loads((own.parents[1] / "plan.json").read_text())["requests"]
    instance = sortedf.Instance(
        [row["prompt_tokens"] for row in plan],
        [row["output_tokens"] for row in plan],
        sum(row["prompt_tokens"] for row in plan),
    )
    blocks = json.loads((own / "meta.json").read_text())["kv_cache"]["num_gpu_blocks"]
    settings = EngineSettings(num_gpu_blocks=blocks, block_size=BLOCK)
    log = Replay(instance, settings).run(STEPS, log=True).log
    assert log is not None
    least = (instance.prompt_tokens + instance.output_tokens - 1).tolist()
    computed, lost = [0] * len(plan), 0
    for step in range(len(log.end)):
        for victim in log.victim[log.evictions[step] : log.evictions[step + 1]].tolist():
            if computed[victim] < least[victim]:  # else its last token is on its way
                lost += computed[victim]
            computed[victim] = 0
        for entry in range(log.entries[step], log.entries[step + 1]):
            computed[log.request[entry]] += int(log.tokens[entry])
    assert lost > 0
    row = next(row for row in found["against"]["rows"] if row["order"] == "fcfs")
    assert row["realized"]["recomputed_tokens"] == row["predicted"]["recomputed_tokens"] == lost
    assert row["realized"]["preemptions"] == len(log.victim)
    assert len(read_step_log(own / "steps.csv").seconds) == len(log.end)


def test_what_is_there_is_not_run_again(
    compared: tuple[Path, dict[str, Any]],
    base: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A run that did not come to its end stays, and another one is made beside it."""
    folder = tmp_path / "run"
    shutil.copytree(compared[0], folder)
    (folder / "against" / "fcfs" / "plan.json").unlink()  # it would be planned again, no more
    meta = folder / "against" / "svf" / "1" / "attempts" / "1" / "meta.json"
    cut = json.loads(meta.read_text())
    del cut["finished_at"]
    meta.write_text(json.dumps(cut))
    code, out, err = run(capsys, "validate", folder, "--against", "svf,fcfs,sjf")
    assert code == 0
    assert "sjf is mcsf" in err
    assert "svf, run 1 of 1" in err
    assert "fcfs, run" not in err
    assert sorted(path.name for path in (folder / "against" / "svf").glob("[0-9]*")) == ["1", "2"]
    assert [path.name for path in (folder / "against" / "fcfs").glob("[0-9]*")] == ["1"]
    assert "as one would without sortedf" in out
    assert compared[1]["against"]["verdict"].split(";")[1] in out


def test_repeats_take_turns(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = executed(base, tmp_path / "run")
    told = ("validate", folder, "--against", "fcfs,longest", "--repeat", "3")
    code, _, err = run(capsys, *told)
    assert code == 0, err
    said = [line for line in err.splitlines() if ", run " in line]
    turns = ("plan fcfs longest", "fcfs longest plan", "longest fcfs plan")
    assert said == [
        f"{name}, run {turn} of 3" for turn, names in enumerate(turns, 1) for name in names.split()
    ]
    found = document(capsys, *told)["against"]
    assert [len(row["mean_latencies"]) for row in found["rows"]] == [3, 3, 3]
    assert found["rows"][0]["ratio"]["realized"] == 1.0
    assert found["rows"][2]["ratio"]["realized"] > found["rows"][1]["ratio"]["realized"] > 1
    assert found["verdict"].startswith("plan is best, fcfs ")


def test_outputs_that_are_not_as_predicted(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = executed(base, tmp_path / "run", "--output-error", "0.3", "--seed", "4")
    plan = json.loads((base / "plan.json").read_text())["requests"]
    planned = {row["id"]: row["output_tokens"] for row in plan}
    attempt = read_run(folder / "attempts" / "1")
    real = dict(zip(attempt.instance.ids, attempt.instance.output_tokens.tolist(), strict=True))
    assert real.keys() == planned.keys()
    shares = {"longer": 0, "shorter": 0}
    for name, tokens in real.items():
        assert tokens in {max(1, round(planned[name] * factor)) for factor in (0.7, 1.3)}
        shares["longer"] += tokens > planned[name]
        shares["shorter"] += tokens < planned[name]
    found = document(capsys, "validate", folder, "--against", "fcfs,svf")
    (validated,) = found["attempts"]
    lengths = validated["lengths"]
    assert (lengths["longer"], lengths["shorter"]) == (shares["longer"], shares["shorter"])
    assert min(shares.values()) > 10
    replayed = lengths["replayed"]
    assert abs(replayed["error"]) > 1e-3
    assert replayed["of_lengths"] == pytest.approx(replayed["error"])
    assert replayed["of_step_times"] == pytest.approx(0, abs=1e-12)
    assert replayed["preemptions"] == validated["work"]["realized"]["preemptions"]
    assert replayed["recomputed_tokens"] == validated["work"]["realized"]["recomputed_tokens"]
    for row in found["against"]["rows"]:
        assert row["n"] == 60
    by_name = {row["order"]: row for row in found["against"]["rows"]}
    assert by_name["fcfs"]["ratio"]["realized"] > 1
    ids = {
        name: read_run(folder / "against" / name / "1" / "attempts" / "1").instance
        for name in ("fcfs", "svf")
    }
    for instance in ids.values():
        assert dict(zip(instance.ids, instance.output_tokens.tolist(), strict=True)) == real


INTERRUPTED = """
import os, signal
from sortedf.cli.main import run
from sortedf.runner.folder import RunFolder

signal.signal(signal.SIGINT, signal.default_int_handler)

def append(self, line):
    go_on(self, line)
    if WHERE in str(self.path) and len(self.status) == 20:
        os.kill(os.getpid(), signal.SIGINT)

go_on, RunFolder.append = RunFolder.append, append
run()
"""


def interrupted(where: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Press Ctrl-C when 20 lines have been written in a folder with this in its name."""
    script = INTERRUPTED.replace("WHERE", repr(where))
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_ctrl_c_while_other_orders_run(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = executed(base, tmp_path / "a run")
    told = ("validate", folder, "--against", "svf,fcfs")
    done = interrupted("against/fcfs", *told, "--json")
    assert done.returncode == 130, done.stderr
    assert done.stdout == ""
    assert f"sortedf validate '{folder}' --against svf,fcfs goes on" in done.stderr
    code, _, err = run(capsys, *told)
    assert code == 0
    assert "svf, run" not in err
    assert sorted(path.name for path in (folder / "against" / "fcfs").glob("[0-9]*")) == ["1", "2"]


def test_an_engine_that_does_not_start_for_other_orders(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is left, and going on is named only once an order has been run."""
    folder = executed(base, tmp_path / "run")
    told = ("validate", folder, "--against", "fcfs", "--repeat", "1")

    def fail(*arguments: object) -> None:
        raise EngineError("no CUDA")

    def fails(*, goes_on: bool) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("sortedf.runner.run_attempt.start_engine", fail)
            code, out, err = run(capsys, *told)
        assert (code, out) == (1, "")
        assert "no CUDA" in err
        assert (" goes on" in err) == goes_on
        assert not (folder / "against" / "plan").exists()

    fails(goes_on=False)
    assert run(capsys, *told[:-2])[0] == 0  # the order alone, on the plan's run as it was
    fails(goes_on=True)
    assert run(capsys, *told)[0] == 0


def test_several_attempts_are_not_mixed(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    told = ("run", base / "plan.json", "-o", folder, "--steptime", base / "steps.json")
    assert interrupted("run", *told).returncode == 130
    document(capsys, "run", "--resume", folder)
    code, out, err = run(capsys, "validate", folder)
    assert code == 0
    assert "attempt 1 was interrupted: " in err
    assert "each by its own clock" in err
    assert "attempt 1, interrupted" in out
    found = document(capsys, "validate", folder, "--against", "fcfs")
    first, second = found["attempts"]
    assert not first["whole"]
    assert second["whole"]
    assert first["n"] + second["n"] == 60
    assert first["jobs"] == 60
    assert first["work"]["realized"]["recomputed_tokens"] is None
    assert not set(first["requests"]["id"]) & set(second["requests"]["id"])
    for attempt in (first, second):
        assert max(attempt["requests"]["arrival"]) == 0
        assert attempt["errors"]["latency"]["worst"] < 1e-9
    assert found["most"] == int(second["n"] > first["n"])
    plan, fcfs = found["against"]["rows"]
    assert (plan["n"], fcfs["n"]) == (60, 60)
    assert (folder / "against" / "plan" / "1").is_dir()
    one = document(capsys, "validate", folder / "attempts" / "2")
    assert [attempt["attempt"] for attempt in one["attempts"]] == ["2"]


def test_a_run_that_nobody_predicted(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Calibrated on its first half, in the order of the plan; or by step times that are named."""
    folder = tmp_path / "run"
    run(capsys, "run", base / "plan.json", "-o", folder)
    found = document(capsys, "validate", folder, "--form", "plain")
    (attempt,) = found["attempts"]
    assert attempt["calibration"]["form"] == "plain"
    assert attempt["trained_on"] is not None
    assert abs(attempt["figures"][0]["error"]) < 0.05
    named = document(capsys, "validate", folder, "--steptime", base / "steps.json")["attempts"][0]
    assert named["predicted_by"] == str(base / "steps.json")
    mean = next(row for row in named["figures"] if row["measure"] == "latency")
    assert mean["realized"] > 10 * mean["predicted"]
    others = document(
        capsys, "validate", folder, "--against", "svf", "--steptime", base / "steps.json"
    )["against"]
    # The engine is still the run's, of a second a step; only the prediction is by other times.
    assert others["rows"][1]["realized"]["mean_latency"] > 10 * mean["predicted"]
    assert others["rows"][1]["predicted"]["mean_latency"] < 2 * mean["predicted"]


def test_a_batch_is_run_again_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several choices, a line that cannot run; a line that was edited since is noticed."""
    bodies = [completion(f"r{k}", [1] * (3 + 5 * k), max_tokens=20 - k) for k in range(12)]
    entries = [*bodies, completion("three", [1, 2], n=3, max_tokens=9), completion("hot", x=1)]
    entries[-1]["body"]["temperature"] = 9
    batch = tmp_path / "batch.jsonl"
    batch.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    told = ("--kv-tokens", "160", "--block-size", BLOCK, "--no-bound", "--skip-bad-lines", "-q")
    assert run(capsys, "solve", batch, *told, "-o", tmp_path / "plan.json")[0] == 0
    folder = tmp_path / "run"
    begun = ("run", tmp_path / "plan.json", batch, "-o", folder, "--steptime", "qwen3-8b-h100")
    assert run(capsys, *begun)[0] == 7
    found = document(capsys, "validate", folder, "--against", "fcfs,longest")
    rows = found["against"]["rows"]
    assert {row["n"] for row in rows} == {15}
    assert all(row["error"] == pytest.approx(0, abs=1e-12) for row in rows)
    assert rows[2]["ratio"]["realized"] > 1
    lines = (folder / "against" / "fcfs" / "1" / "output.jsonl").read_bytes().splitlines()
    by_id = {line["custom_id"]: line for line in map(json.loads, lines)}
    assert len(by_id) == len(lines) == 14
    assert len(by_id["three"]["response"]["body"]["choices"]) == 3
    assert by_id["hot"]["error"] is not None
    entries[3]["body"]["max_tokens"] = 7
    batch.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    code, _, err = run(capsys, "validate", folder, "--against", "svf")
    assert code == 3
    assert '"r3"' in err or "'r3'" in err
    piped = tmp_path / "piped"
    shutil.copytree(folder, piped)
    manifest = json.loads((piped / "manifest.json").read_text())
    (piped / "manifest.json").write_text(json.dumps(manifest | {"batch": "-"}))
    code, _, err = run(capsys, "validate", piped, "--against", "svf")
    assert code == 3
    assert "stdin" in err


@pytest.mark.parametrize("by", ["a move", "stdin"])
def test_a_batch_that_is_no_longer_there(
    by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line: the file, the run, and what to do; done once, the batch is found again."""
    batch, moved = tmp_path / "batch.jsonl", tmp_path / "moved to.jsonl"
    entries = [completion(f"r{k}", [1] * (3 + k), max_tokens=9 - k) for k in range(4)]
    batch.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    plan, folder = tmp_path / "plan.json", tmp_path / "the run"
    assert run(capsys, "solve", batch, "--kv-tokens", "40", "-q", "-o", plan)[0] == 0
    assert run(capsys, "run", plan, batch, "-o", folder, "--steptime", "qwen3-8b-h100")[0] == 0
    batch.rename(moved)
    if by == "stdin":
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps(manifest | {"batch": "-"}))
    for command in (("validate", folder, "--against", "svf"), ("run", "--resume", folder)):
        code, out, err = run(capsys, *command)
        assert (code, out, err.count("\n")) == (3, "", 1)
        gone = "came from stdin" if by == "stdin" else f"is no longer at {batch}"
        assert err.startswith(f"{folder}: its batch {gone}; give it: sortedf run ")
    assert not (folder / "against").exists()
    said = shlex.split(err.partition("give it: sortedf ")[2])
    assert run(capsys, *(moved if word == "BATCH" else word for word in said))[0] == 0
    for command in (("validate", folder, "--against", "svf"), ("run", "--resume", folder)):
        code, _, err = run(capsys, *command)
        assert code == 0, err


def test_pages(
    compared: tuple[Path, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [tmp_path / "one.html", tmp_path / "two.html"]
    for page in pages:
        told = ("validate", compared[0], "--against", "fcfs,svf", "-o", page, "-q")
        assert run(capsys, *told)[0] == 0
    text = pages[0].read_text()
    assert text == pages[1].read_text()
    for part in ("scatter-wide", "series-narrow", "orders-wide", "answers-narrow", "over plan"):
        assert part in text
    assert run(capsys, "validate", compared[0], "-o", tmp_path / "alone.html", "-q")[0] == 0
    assert "orders-wide" not in (tmp_path / "alone.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("RUN", "--against", "fcfs,none"), 2, "there is no solver 'none'"),
        (("RUN", "--against", "fcfs,fcfs"), 2, "twice"),
        (("RUN", "--against", "mcsf,sjf"), 2, "twice"),
        (("RUN", "--against", "all"), 2, "name the orders"),
        (("RUN", "--repeat", "2"), 2, "--against"),
        (("RUN", "--num-gpu-blocks", "9"), 2, "itself"),
        (("RUN/attempts/1", "--against", "fcfs"), 2, "whole run"),
        (("TRACE", "--against", "fcfs"), 2, "sortedf run"),
        (("TRACE", "--repeat", "2"), 2, "sortedf run"),
    ],
)
def test_usage(
    arguments: tuple[str, ...],
    code: int,
    words: str,
    compared: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(compared[0] / "attempts" / "1", trace)
    names = {"RUN": str(compared[0]), "TRACE": str(trace)}
    first = arguments[0].replace("RUN", names["RUN"]).replace("TRACE", names["TRACE"])
    found, out, err = run(capsys, "validate", first, *arguments[1:])
    assert (found, out) == (code, "")
    assert words in err


def test_calibrate_names_the_attempts_of_a_run(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, which can be followed; attempts in which nothing was done are not meant."""
    folder = executed(base, tmp_path / "run")
    assert run(capsys, "run", "--resume", folder)[0] == 0
    code, out, err = run(capsys, "calibrate", folder)
    assert (code, out, err.count("\n")) == (3, "", 1)
    attempt = err.partition("(")[2].partition(")")[0]
    assert attempt == str(folder / "attempts" / "1")
    assert run(capsys, "calibrate", attempt, "-q")[0] == 0
    shutil.rmtree(folder / "attempts")
    code, _, err = run(capsys, "calibrate", folder)
    assert (code, "there is none in it" in err) == (3, True)


def test_locked_and_empty_runs(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = executed(base, tmp_path / "run")
    lock = FolderLock(folder / "lock")
    code, _, err = run(capsys, "validate", folder, "--against", "fcfs")
    assert code == 3
    assert "at work on this folder" in err
    assert not (folder / "against").exists()
    assert run(capsys, "validate", folder, "-q")[0] == 0
    lock.release()
    shutil.rmtree(folder / "attempts")
    code, _, err = run(capsys, "validate", folder)
    assert code == 3
    assert "nothing was answered" in err

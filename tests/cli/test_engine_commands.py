"""calibrate, predict and validate from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from run_folders import TRUE, made_folder, replayed_run
from running import document, run

import sortedf
from sortedf.engine.calibration import Calibration, write_calibration
from sortedf.engine.step_log import StepLog, write_step_log


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    return made_folder(folder, 40, rate=40.0, num_gpu_blocks=600)


@pytest.fixture
def steptime(tmp_path: Path) -> Path:
    path = tmp_path / "steptime.json"
    write_calibration(Calibration(model=TRUE), path)
    return path


def test_calibrate_writes_what_predict_reads(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    """From a run folder to step times to seconds of a plan."""
    steptime, plan = tmp_path / "st.json", tmp_path / "plan.json"
    code, out, err = run(capsys, "calibrate", folder, "--form", "plain", "-o", steptime)
    assert code == 0
    assert "training error" in out
    assert "fitting form plain" in err
    assert f"written to {steptime}" in err
    written = json.loads(steptime.read_text())
    assert written["schema"] == "sortedf.steptime/1"
    assert written["coefficients"]["fixed"] == pytest.approx(TRUE.fixed, rel=0.2)

    sortedf.write_plan(sortedf.solve(sortedf.example(), solver="svf"), plan)
    found = document(capsys, "predict", plan, "--steptime", steptime)
    assert found["n"] == len(found["requests"]) == 300
    assert found["makespan_seconds"] == pytest.approx(
        max(row["completion"] for row in found["requests"])
    )
    for row in found["requests"]:
        low, high = row["completion_interval"]
        assert low <= row["completion"] <= high
    assert len(found["series"]["end"]) == found["engine_steps"]
    code, out, _ = run(capsys, "predict", plan, "--steptime", steptime)
    assert code == 0
    assert "mean latency" in out


def test_a_plan_is_followed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, steptime: Path
) -> None:
    """The engine gets the requests in the order of the plan: longest first ends otherwise."""
    found = {}
    for solver in ("svf", "longest"):
        plan = tmp_path / f"{solver}.json"
        sortedf.write_plan(sortedf.solve(sortedf.example(), solver=solver), plan)
        found[solver] = document(capsys, "predict", plan, "--steptime", steptime)
    assert found["svf"]["mean_latency_seconds"] < 0.8 * found["longest"]["mean_latency_seconds"]
    assert "completion_interval" not in found["svf"]["requests"][0]


def test_settings_reach_the_engine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, steptime: Path
) -> None:
    """One seat: nobody runs beside another."""
    plan = tmp_path / "plan.json"
    sortedf.write_plan(sortedf.solve(sortedf.example(), solver="svf"), plan)
    found = document(
        capsys, "predict", plan, "--steptime", steptime, "--max-num-seqs", 1,
        "--engine-version", "0.19", "--no-async-scheduling",
    )  # fmt: skip
    assert found["peak_running"] == 1
    assert found["engine"]["version"] == "vLLM 0.19"


def test_validate_says_how_far_off_it_is(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    """The figures are those of the run; on a run made by the replay they agree."""
    page = tmp_path / "page.html"
    code, out, _ = run(capsys, "validate", folder, "--form", "plain", "-o", page)
    assert code == 0
    assert "trained on the first 20 of 40 arrivals" in " ".join(out.split())
    text = page.read_text()
    for part in ("scatter-wide", "errors-narrow", "series-wide", "Predicted against realized"):
        assert part in text
    assert "<script" not in text
    found = document(capsys, "validate", folder, "--form", "plain", "--train", "0.5")
    assert max(abs(row["error"]) for row in found["figures"]) < 0.02
    assert found["calibration"]["trials"][0]["form"] == "plain"
    assert found["trained_on"] == "what was seen before 50% of the makespan"


def test_validate_with_given_step_times(
    capsys: pytest.CaptureFixture[str], folder: Path, steptime: Path, tmp_path: Path
) -> None:
    """With the step times that made the run nothing is off, and nothing is trained."""
    found = document(capsys, "validate", folder, "--steptime", steptime)
    assert max(abs(row["error"]) for row in found["figures"]) < 1e-6
    assert found["trained_on"] is None
    assert found["calibration"] is None
    code, _, _ = run(capsys, "validate", folder, "--steptime", steptime, "-o", tmp_path / "p.html")
    assert code == 0
    packaged = document(capsys, "validate", folder, "--steptime", "qwen3-8b-h100")
    assert max(abs(row["error"]) for row in packaged["figures"]) > 0.1


def test_same_page_twice(
    capsys: pytest.CaptureFixture[str], folder: Path, steptime: Path, tmp_path: Path
) -> None:
    """Same run, same bytes."""
    pages = [tmp_path / "one.html", tmp_path / "two.html"]
    for page in pages:
        run(capsys, "validate", folder, "--steptime", steptime, "-o", page)
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_calibrate_from_steps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A folder with a step log is fitted to its steps."""
    log = replayed_run(30)[2].log
    assert log is not None
    write_step_log(
        StepLog(work=log.work, seconds=TRUE.duration(log.work), source=""), tmp_path / "steps.csv"
    )
    found = document(capsys, "calibrate", tmp_path)
    assert found["from"] == "steps"
    assert found["steptime"]["coefficients"]["token"] == pytest.approx(TRUE.token)
    code, out, _ = run(capsys, "calibrate", tmp_path, "-o", tmp_path / "st.json")
    assert code == 0
    assert "held-out error" in out
    assert run(capsys, "calibrate", tmp_path, "--train", "half")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("calibrate", "{folder}/none"), 3, "no such folder"),
        (("calibrate", "{folder}", "--form", "cubic"), 2, "cubic"),
        (("calibrate", "{folder}", "--train", "most"), 2, "training part"),
        (("calibrate", "{folder}", "-o", "-", "--json"), 2, "stdout"),
        (("validate", "{folder}", "--steptime", "{steptime}", "--train", "half"), 2, "--train"),
        (("validate", "{folder}", "--steptime", "{folder}/meta.json"), 3, "step-time model"),
        (("predict", "{folder}/meta.json", "--steptime", "{steptime}"), 3, "meta.json"),
        (("predict", "{folder}/meta.json"), 2, "--steptime is missing"),
        (("predict", "-", "--steptime", "-"), 2, "cannot both be stdin"),
        (("calibrate", "{folder}", "-o", "{folder}/meta.json"), 2, "is a file that is read"),
        (("calibrate", "{folder}", "-o", "{folder}/none/st.json"), 3, "there is no folder"),
        (("validate", "{folder}", "-o", "{folder}/requests.jsonl"), 2, "is a file that is read"),
        (("validate", "{folder}", "-o", "{folder}"), 3, "Is a directory"),
        (
            ("validate", "{folder}", "--steptime", "{steptime}", "-o", "{steptime}"),
            2,
            "is a file that is read",
        ),
        (("calibrate", "{folder}", "{folder}"), 2, "each must have a steps.csv"),
        (("calibrate", "{folder}", "--engine-version", "9"), 2, "known are 0.32, 0.19"),
        (
            ("validate", "{folder}", "--no-prefix-caching", "--shared-blocks", "1"),
            2,
            "--shared-blocks needs --prefix-caching",
        ),
        (("validate", "{folder}", "--num-gpu-blocks", "20"), 3, "not of one run"),
    ],
)
def test_what_is_refused(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    steptime: Path,
    arguments: tuple[str, ...],
    code: int,
    says: str,
) -> None:
    """Each a documented exit code and one clear line, nothing on stdout."""
    given = [text.format(folder=folder, steptime=steptime) for text in arguments]
    before = {path.name: path.read_bytes() for path in [*folder.iterdir(), steptime]}
    found, out, err = run(capsys, *given)
    assert found == code
    assert says in err
    assert out == ""
    assert "fitting" not in err
    assert before == {path.name: path.read_bytes() for path in [*folder.iterdir(), steptime]}


def test_settings_that_the_folder_does_not_say(
    capsys: pytest.CaptureFixture[str], folder: Path, steptime: Path, tmp_path: Path
) -> None:
    """A run whose folder is silent is predicted once it is said how the engine was started."""
    silent = tmp_path / "silent"
    shutil.copytree(folder, silent)
    meta = json.loads((silent / "meta.json").read_text())
    scheduler = meta["resolved_config"]["scheduler_config"]
    asynchronous = scheduler.pop("async_scheduling")
    assert asynchronous
    (silent / "meta.json").write_text(json.dumps({"num_requests": meta["num_requests"]}))
    known = (
        "--num-gpu-blocks", 600, "--max-num-seqs", 64, "--max-num-batched-tokens", 1024,
        "--prefix-caching", "--async-scheduling", "--engine-version", "0.19",
    )  # fmt: skip
    given = ("validate", silent, "--steptime", steptime)
    found = document(capsys, *given, *known)
    assert max(abs(row["error"]) for row in found["figures"]) < 1e-6
    assert found["engine"] == "vLLM 0.19"
    for less in ((), (*known, "--no-async-scheduling"), (*known, "--shared-blocks", 2)):
        wrong = document(capsys, *given, *less)
        assert max(abs(row["error"]) for row in wrong["figures"]) > 1e-3
    code, out, _ = run(
        capsys, "calibrate", silent, "--form", "plain", "--shared-blocks", 0, *known, "--json"
    )
    assert code == 0
    assert json.loads(out)["training_error"] < 0.002


def test_calibrate_from_several_step_logs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Folders with a step log each are one calibration; what differs between them is learned."""
    folders = [tmp_path / name for name in ("one", "two")]
    for folder, speed in zip(folders, (1.0, 1.1), strict=True):
        log = replayed_run(30)[2].log
        assert log is not None
        folder.mkdir()
        seconds = speed * TRUE.duration(log.work)
        write_step_log(StepLog(work=log.work, seconds=seconds, source=""), folder / "steps.csv")
    interval = document(capsys, "calibrate", folders[0], "--form", "plain")["steptime"][
        "calibration"
    ]["interval"]
    assert interval["completion"] < 1e-6
    both = document(capsys, "calibrate", *folders, "--form", "plain")
    assert both["steptime"]["calibration"]["interval"]["completion"] == pytest.approx(0.1, abs=0.01)
    assert log is not None
    assert both["training_times"] == 2 * len(log.end)


def test_too_few_steps_are_bad_input(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The file is named."""
    path = tmp_path / "steps.csv"
    path.write_text(
        "seconds,prefill_tokens,decode_tokens,context,prefill_work,chunk_squared,context_squared\n"
        "0.1,5,0,0,15,25,0\n"
    )
    code, out, err = run(capsys, "calibrate", tmp_path)
    assert (code, out) == (3, "")
    assert f"{path}: 1 step is too few to fit 3 coefficients" in err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"coefficients": {}}, "has no coefficient above 0"),
        ({"coefficients": {"fixed": 1e308}}, "fixed is 1e+308; it must be a number of seconds"),
        ({"calibration": {"shared_blocks": 10**18}}, "shared_blocks"),
        ({"calibration": {"others": [{"speed": 1.0}]}}, "has no known coefficient speed"),
        (
            {
                "calibration": {
                    "interval": {
                        "coverage": 0.9,
                        "first_token": 1e308,
                        "completion": 0.1,
                        "step_seconds": 0.1,
                        "held_out": 9,
                    }
                }
            },
            "first_token",
        ),
    ],
)
def test_step_times_that_cannot_be(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    steptime: Path,
    change: dict[str, Any],
    says: str,
) -> None:
    """Numbers that no engine has are refused, with the file."""
    steptime.write_text(json.dumps(json.loads(steptime.read_text()) | change))
    code, out, err = run(capsys, "validate", folder, "--steptime", steptime)
    assert (code, out) == (3, "")
    assert str(steptime) in err
    assert says in err


def test_a_faulty_folder_is_exit_3(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The line of a request with swapped times is on stderr."""
    folder = made_folder(tmp_path / "run", 5)
    lines = (folder / "requests.jsonl").read_text().splitlines()
    row = json.loads(lines[2])
    row["first_token_ts"], row["last_token_ts"] = row["last_token_ts"], row["first_token_ts"]
    lines[2] = json.dumps(row)
    (folder / "requests.jsonl").write_text("\n".join(lines))
    for command in ("calibrate", "validate"):
        code, out, err = run(capsys, command, folder)
        assert code == 3
        assert out == ""
        assert f"{folder / 'requests.jsonl'}:3: last_token_ts" in err

"""calibrate, predict and validate from the command line."""

from __future__ import annotations

import json
from pathlib import Path

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
    found, out, err = run(capsys, *given)
    assert found == code
    assert says in err
    assert out == ""


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

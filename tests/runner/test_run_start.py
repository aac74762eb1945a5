"""A run whose engine does not start: it was never begun, and nothing of it is in the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from batch_files import completion
from run_commands import planned, write_batch
from run_inputs import FakeEngine, output_of

from sortedf.cli.main import main
from sortedf.engine.settings import EngineSettings
from sortedf.errors import BudgetError, EngineError, OptionError
from sortedf.runner import RunOptions, resume, run
from sortedf.runner.engines import Job
from sortedf.runner.jobs import Work
from sortedf.runner.start import EngineOptions

Start = Callable[[str, EngineOptions, Path], FakeEngine]


@pytest.fixture
def work(tmp_path: Path) -> tuple[Path, Path]:
    """Plan a batch: three requests that can run, and a line that cannot."""
    entries = [completion(f"r{k}", [1] * (5 + k), max_tokens=9) for k in range(3)]
    batch = write_batch(tmp_path / "batch.jsonl", [*entries, "{"])
    return planned(batch, tmp_path / "plan.json", 400, "--skip-bad-lines"), batch


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Start], list[object]]:
    """Let an engine be started as one says; gives the options of `sortedf run` for it."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    monkeypatch.setattr("sortedf.runner.start.find_spec", lambda name: 1)

    def by(start: Start) -> list[object]:
        monkeypatch.setattr("sortedf.runner.run_attempt.start_engine", start)
        return ["--engine", "vllm", "--model", tmp_path / "model", "--any-model"]

    return by


def failing(error: Exception, printed: str = "") -> Start:
    def start(name: str, options: EngineOptions, log: Path) -> FakeEngine:
        log.write_text(printed)
        raise error

    return start


class Small(FakeEngine):
    """One with less memory than the plan is for."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = EngineSettings(num_gpu_blocks=5)


class Cold(FakeEngine):
    """One that dies of its warm-up."""

    def __init__(self) -> None:
        super().__init__(die_after=0)


FAILURES: dict[str, tuple[Start, int]] = {
    "option": (failing(OptionError("vLLM refuses its options: no such dtype")), 2),
    "start": (failing(EngineError("vLLM did not start: no CUDA")), 1),
    "budget": (lambda name, options, log: Small(), 4),
    "warm-up": (lambda name, options, log: Cold(), 1),
}


def run_command(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = main(["run", *map(str, words)])
    err = capsys.readouterr().err
    assert "Traceback" not in err
    return code, err


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("before", ["nothing", "an empty folder"])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_start_that_fails_leaves_nothing(
    failure: str,
    before: str,
    work: tuple[Path, Path],
    starts: Callable[[Start], list[object]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing to resume is promised, and the same folder takes the run that is started right."""
    folder = tmp_path / "deep" / "in" / "run"
    if before == "an empty folder":
        folder.mkdir(parents=True)
    found = tree(tmp_path)
    start, code = FAILURES[failure]
    options = [*starts(start), "--warm-up"]
    assert run_command(capsys, *work, "-o", folder, *options)[0] == code
    assert tree(tmp_path) == {**found, **model_of(tmp_path)}
    told, err = run_command(capsys, *work, "-o", folder, *options)
    assert (told, "--resume" in err, "goes on" in err) == (code, False, False)
    starts(lambda name, options, log: FakeEngine())
    assert run_command(capsys, *work, "-o", folder, *options)[0] == 7
    assert [line["custom_id"] for line in output_of(folder)] == [None, "r0", "r1", "r2"]


def model_of(folder: Path) -> dict[str, bytes | None]:
    return {"model": None, "model/config.json": b"{}"}


def test_what_a_failed_start_printed_stays(
    work: tuple[Path, Path],
    starts: Callable[[Start], list[object]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The error names the log; beside it there is the lock alone, and a run takes the folder."""
    folder = tmp_path / "run"
    options = starts(failing(EngineError("vLLM did not start: see the log"), "no CUDA\n"))
    for _ in range(2):
        code, err = run_command(capsys, *work, "-o", folder, *options)
        assert (code, "goes on" in err) == (1, False)
        assert tree(folder).keys() == {"lock", "attempts", "attempts/1", "attempts/1/engine.log"}
        assert (folder / "attempts" / "1" / "engine.log").read_text() == "no CUDA\n"
    code, err = run_command(capsys, "--resume", folder)
    assert (code, "no run was begun" in err) == (3, True)
    (folder / "attempts" / "1" / "mine").write_text("mine")
    code, err = run_command(capsys, *work, "-o", folder, *options)
    assert (code, "is not empty" in err) == (3, True)
    (folder / "attempts" / "1" / "mine").unlink()
    starts(lambda name, options, log: FakeEngine())
    assert run_command(capsys, *work, "-o", folder, *options)[0] == 7
    assert tree(folder / "attempts" / "1").keys() >= {"meta.json", "requests.jsonl"}
    assert not (folder / "attempts" / "2").exists()


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("answered", [0, 1])
def test_a_resumed_run_whose_engine_does_not_start(
    answered: int,
    failure: str,
    work: tuple[Path, Path],
    starts: Callable[[Start], list[object]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It stays as it was; that it can be resumed is said where there is something to keep."""
    folder = tmp_path / "run"
    options = starts(lambda name, options, log: FakeEngine(die_after=answered))
    assert run_command(capsys, *work, "-o", folder, *options)[0] == 1
    before = tree(folder)
    start, code = FAILURES[failure]
    starts(start)
    told, err = run_command(capsys, "--resume", folder, "--warm-up")
    assert told == code
    assert tree(folder) == before
    assert (f"sortedf run --resume {folder} goes on" in err) == (answered > 0 and code == 1)
    starts(lambda name, options, log: FakeEngine())
    assert run_command(capsys, "--resume", folder)[0] == 7
    assert len(output_of(folder)) == 4


@pytest.mark.parametrize("error", [OptionError, EngineError, BudgetError])
def test_the_library_undoes_it_too(
    error: type[Exception],
    work: tuple[Path, Path],
    starts: Callable[[Start], list[object]],
    tmp_path: Path,
) -> None:
    starts(failing(error("no")))
    options = RunOptions(engine="vllm", model=str(tmp_path / "model"), any_model=True)
    with pytest.raises(error, match="no"):
        run(*work, tmp_path / "run", options)
    assert not (tmp_path / "run").exists()


def test_an_interrupted_start_can_be_resumed(
    work: tuple[Path, Path],
    starts: Callable[[Start], list[object]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C is no fault of the settings."""

    def start(name: str, options: EngineOptions, log: Path) -> FakeEngine:
        raise KeyboardInterrupt

    folder = tmp_path / "run"
    options = starts(start)
    code, err = run_command(capsys, *work, "-o", folder, *options)
    assert (code, f"--resume {folder} goes on" in err) == (130, True)
    starts(lambda name, options, log: FakeEngine())
    assert resume(folder).counts == (3, 1, 0)


def test_jobs_are_built_once_and_warm_the_engine_up(
    work: tuple[Path, Path],
    starts: Callable[[Start], list[object]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the context of the engine, and without the lines that it refuses."""
    built: list[int | None] = []
    jobs_of = Work.jobs

    def jobs(self: Work, done: Any, max_model_len: int | None) -> list[Job]:
        built.append(max_model_len)
        return jobs_of(self, done, max_model_len)

    monkeypatch.setattr(Work, "jobs", jobs)
    warmed: list[Sequence[Job]] = []

    def warm_up(engine: FakeEngine, jobs: Sequence[Job]) -> dict[str, int]:
        warmed.append(jobs)
        return {"rounds": 1}

    monkeypatch.setattr("sortedf.runner.run_attempt.warm_up", warm_up)
    engine = FakeEngine(refuse=["r1"])
    engine.settings = EngineSettings(num_gpu_blocks=1000, max_model_len=15)  # r2 asks for 16
    starts(lambda name, options, log: engine)
    options = RunOptions(engine="vllm", model=str(tmp_path / "model"), any_model=True, warm_up=True)
    done = run(*work, tmp_path / "run", options)
    assert built == [15]
    assert [[job.name for job in jobs] for jobs in warmed] == [["r0"]]
    assert [job.name for job in engine.executed] == ["r0"]
    assert done.counts == (1, 3, 0)
    meta = json.loads((tmp_path / "run" / "attempts" / "1" / "meta.json").read_text())
    assert (meta["warm_up"], meta["num_jobs"]) == ({"rounds": 1}, 1)

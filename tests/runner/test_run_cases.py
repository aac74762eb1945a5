"""The batch files and outputs that broke other tools, through the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from batch_files import chat, completion
from run_commands import lines_in, planned, write_batch
from run_outputs import names_in, read_strictly

from sortedf.cli.main import main


def command(*arguments: object) -> int:
    return main(["run", *map(str, arguments)])


def run(batch: Path, folder: Path, *further: object) -> tuple[int, dict[Any, dict[str, Any]]]:
    """Plan a batch, its broken lines left out, and run it; the lines of output by custom_id."""
    plan = planned(
        batch, folder / "plan.json", 20_000, "--prompt-tokens", "chars/4", "--skip-bad-lines"
    )
    code = command(plan, batch, "-o", folder / "run", *further)
    lines = read_strictly(folder / "run" / "output.jsonl")
    found = {line["custom_id"]: line for line in lines}
    assert len(found) == len(lines)
    return code, found


def test_one_bad_request(cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case 31: told before the engine is started, one error line each, exit code 7."""
    batch = cases / "31-one-bad-request" / "batch.jsonl"
    code, found = run(batch, tmp_path, "--any-model", "--max-model-len", 64)
    assert code == 7
    assert {name for name, line in found.items() if line["error"] is None} == {"a-1", "a-2", "a-4"}
    assert {name for name, line in found.items() if line["error"]} == {"a-3", "a-5"}
    err = capsys.readouterr().err
    assert f"{batch}:3: 'a-3'" in err
    assert f"{batch}:5: 'a-5'" in err


def test_several_answers(cases: Path, tmp_path: Path) -> None:
    """Case 35: n, and lists of prompts, are one line with all choices."""
    code, found = run(cases / "35-n-and-best-of" / "batch.jsonl", tmp_path, "--any-model")
    assert code == 7
    assert {name for name, line in found.items() if line["error"]} == {"a-2", "a-4", "a-5", "a-7"}
    bodies = {name: found[name]["response"]["body"] for name in ("a-1", "a-3", "a-6")}
    choices = {
        name: [choice["index"] for choice in body["choices"]] for name, body in bodies.items()
    }
    assert choices == {"a-1": [0, 1, 2, 3], "a-3": [0, 1, 2, 3], "a-6": [0]}
    assert [body["usage"]["completion_tokens"] for body in bodies.values()] == [200, 20, 50]
    attempt = tmp_path / "run" / "attempts" / "1" / "requests.jsonl"
    ran = [json.loads(line)["request_id"] for line in attempt.read_text().splitlines()]
    assert len(ran) == 4 + 4 + 1


@pytest.fixture
def begun(tmp_path: Path) -> Any:
    """Give a function that begins a run of a batch and puts another output into its folder."""

    def begin(batch: Path, output: Path) -> tuple[Path, dict[str, bytes]]:
        copy = tmp_path / "batch.jsonl"
        shutil.copy(batch, copy)
        copy.chmod(0o644)
        code, _ = run(copy, tmp_path, "--any-model")
        assert code == 0
        (tmp_path / "run" / "output.jsonl").write_bytes(output.read_bytes())
        whole = {}
        for line in output.read_bytes().split(b"\n"):
            try:
                whole[json.loads(line)["custom_id"]] = line
            except ValueError:
                continue
        return tmp_path / "run", whole

    return begin


@pytest.mark.parametrize(
    "name", ["torn_utf8", "torn_json", "torn_then_blank", "no_newline", "nul_tail", "bad_middle"]
)
def test_a_torn_output(name: str, cases: Path, begun: Any) -> None:
    """Case 51: whole answers are kept byte for byte, the rest runs, five lines in the end."""
    case = cases / "51-partial-last-line"
    folder, whole = begun(case / "batch.jsonl", case / f"output_{name}.jsonl")
    answered = set(whole)
    assert answered
    assert command("--resume", folder) == 0
    ran = folder / "attempts" / "2" / "requests.jsonl"
    again = {json.loads(line)["request_id"] for line in ran.read_text().splitlines()}
    assert again == {f"a-{k}" for k in range(1, 6)} - answered
    assert sorted(map(str, names_in(folder / "output.jsonl"))) == [f"a-{k}" for k in range(1, 6)]
    assert set(whole.values()) <= set(lines_in(folder))


def test_an_input_that_was_edited(
    cases: Path, begun: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 53: refused, naming what changed; what was answered stays as it is."""
    case = cases / "53-resume-after-edit"
    folder, _ = begun(case / "batch_v1.jsonl", case / "output_of_v1.jsonl")
    before = (folder / "output.jsonl").read_bytes()
    second = tmp_path / "second"
    second.mkdir()
    plan = planned(
        case / "batch_v2.jsonl", second / "plan.json", 20_000, "--prompt-tokens", "chars/4"
    )
    capsys.readouterr()
    shutil.copyfile(case / "batch_v2.jsonl", tmp_path / "batch.jsonl")
    assert command("--resume", folder) == 3  # the plan has no d, and b has another prompt
    assert command(plan, case / "batch_v2.jsonl", "--resume", folder) == 3
    err = capsys.readouterr().err
    assert "plan_sha256" in err
    assert (folder / "output.jsonl").read_bytes() == before
    assert names_in(folder / "output.jsonl") == ["a", "b", "c"]


def test_a_request_that_was_edited(
    cases: Path, begun: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 53 again, where the plan still fits: the hash of the request tells."""
    case = cases / "53-resume-after-edit"
    folder, _ = begun(case / "batch_v1.jsonl", case / "output_of_v1.jsonl")
    before = (folder / "output.jsonl").read_bytes()
    batch = tmp_path / "batch.jsonl"
    text = batch.read_text()
    batch.write_text("\n".join(reversed(text.splitlines())) + "\n\n")
    assert command("--resume", folder) == 0  # other order and blank lines are no edit
    batch.write_text(text.replace('"two"', '"owt"'))
    capsys.readouterr()
    assert command("--resume", folder) == 3
    err = capsys.readouterr().err
    assert [name for name in "abc" if f"custom_id '{name}'" in err or f'"{name}"' in err] == ["b"]
    assert (folder / "output.jsonl").read_bytes() == before


def test_errors_in_the_output(cases: Path, begun: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Case 55: only what was answered, or would fail again, counts as done."""
    case = cases / "55-resume-with-errors"
    folder, whole = begun(case / "batch.jsonl", case / "output.jsonl")
    capsys.readouterr()
    assert command("--resume", folder, "--json") == 7
    told = json.loads(capsys.readouterr().out)
    assert (told["answered"], told["failed"], told["not_run"]) == (4, 1, 0)
    assert sorted(map(str, names_in(folder / "output.jsonl"))) == [f"a-{k}" for k in range(1, 6)]
    assert {whole["a-1"], whole["a-2"]} <= set(lines_in(folder))
    assert command("--resume", folder, "--retry-failed", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["answered"], told["failed"], told["not_run"]) == (5, 0, 0)
    assert whole["a-1"] in lines_in(folder)


def test_bad_lines_among_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken lines, too long requests and unknown models: one error record each, exit code 7."""
    entries: list[Any] = [completion(f"good{k}", [1] * (k + 1), model="m") for k in range(20)]
    bad: list[tuple[Any, str | int, str]] = [
        ("{", 1, "invalid_json_line"),
        ("[1, 2]", 2, "invalid_json_line"),
        (completion("x", model="other"), "x", "model_not_found"),
        (completion("long", [1] * 90), "long", "context_length_exceeded"),
        (completion("much", max_tokens=500), "much", "context_length_exceeded"),
        (chat("odd", temperature=9), "odd", "invalid_request"),
    ]
    entries[:0] = [entry for entry, _, _ in bad]
    entries.append(completion("good3", [9]))  # for the second time
    batch = write_batch(tmp_path / "batch.jsonl", entries)
    plan = planned(
        batch, tmp_path / "plan.json", 2000, "--prompt-tokens", "chars/4", "--skip-bad-lines"
    )
    capsys.readouterr()
    folder = tmp_path / "run"
    arguments = ("--served-model-name", "m", "--max-model-len", 96, "--json")
    assert command(plan, batch, "-o", folder, *arguments) == 7
    told = json.loads(capsys.readouterr().out)
    assert (told["answered"], told["failed"], told["not_run"]) == (20, 7, 0)
    lines = read_strictly(folder / "output.jsonl")
    answered = [line["custom_id"] for line in lines if line["error"] is None]
    assert sorted(answered) == sorted(f"good{k}" for k in range(20))
    errors = {
        line["custom_id"] or line["error"]["line"]: line["error"]["code"]
        for line in lines
        if line["error"]
    }
    repeated = errors.pop(27)
    assert repeated == "duplicate_custom_id"
    assert errors == {name: code for _, name, code in bad}
    assert command("--resume", folder) == 7  # and no record a second time
    assert len(read_strictly(folder / "output.jsonl")) == 27

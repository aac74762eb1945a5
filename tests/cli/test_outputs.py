"""Where commands write: nothing over what is read, or over what they write themselves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import typer
from running import run

from sortedf.cli.main import app

WRITES = {
    "solve": {"--output", "--certificate"},
    "bound": {"--certificate"},
    "report": {"--output"},
    "generate": {"--output"},
    "calibrate": {"--output"},
    "validate": {"--output"},
    "run": {"--output"},
    "simulate": {"--output"},
    "learn": {"--output"},
    "route": {"--output"},
    "prove": {"--output"},
    "prove counterexample": {"--output"},
    "prove find": {"--output"},
    "prove ratio": {"--output"},
}
"""Options by which a command is told where to write. Of `report`, the certificate is read."""


def commands(command: Any, name: str = "") -> dict[str, Any]:
    """Give a command and those below it, by name."""
    found = {name.strip(): command}
    for word, inner in getattr(command, "commands", {}).items():
        found |= commands(inner, f"{name} {word}")
    return found


def test_all_outputs_are_known() -> None:
    """An option that a test below does not know is noticed."""
    names = {"--output", "--certificate"}
    found = {
        name: {option for parameter in command.params for option in parameter.opts} & names
        for name, command in commands(typer.main.get_command(app)).items()
    }
    found["report"].remove("--certificate")
    assert {name: options for name, options in found.items() if options} == WRITES


SAME = [
    ("x.json", "x.json"),
    ("x.json", "./x.json"),
    ("x.json", "folder/../x.json"),
    ("x.json", "link"),
    ("link", "x.json"),
    ("old.json", "hard"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_outputs_to_one_file_are_refused(
    one: str,
    other: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before any work, whatever the file is called, and whether it is there already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sortedf.solvers.solve", None)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("x.json")
    (tmp_path / "old.json").write_text("old")
    os.link("old.json", "hard")
    before = sorted(tmp_path.iterdir())
    code, out, err = run(capsys, "solve", "-o", one, "--certificate", other)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"-o and --certificate are both to be written to {other}")
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "old.json").read_text() == "old"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["solve", "-o", "-", "--certificate", "-"], "-o - and --certificate - both"),
        (["solve", "-o", "-", "--json"], "-o - and --json both"),
        (["solve", "-o", "-", "--certificate", "-", "--json"], "-o -, --certificate - and --json"),
        (["bound", "--certificate", "-", "--json"], "--certificate - and --json both"),
        (["report", "plan.json", "-o", "-", "--json"], "-o - and --json both"),
        (["generate", "mix", "-n", "3", "--json"], "-o - and --json both"),
        (["calibrate", "run", "-o", "-", "--json"], "-o - and --json both"),
        (["validate", "run", "-o", "-", "--json"], "-o - and --json both"),
        (["prove", "-o", "-", "--json"], "-o - and --json both"),
    ],
)
def test_stdout_takes_one_thing(
    arguments: list[str], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(names)


def test_two_outputs_to_two_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other names, a device that takes all, and stdout beside a file."""
    plan, certificate = tmp_path / "plan.json", tmp_path / "certificate.json"
    told = ("solve", "--solver", "svf", "-q")
    assert run(capsys, *told, "-o", plan, "--certificate", certificate)[0] == 0
    schemas = [json.loads(path.read_text())["schema"] for path in (plan, certificate)]
    assert len(set(schemas)) == 2
    assert run(capsys, *told, "-o", os.devnull, "--certificate", os.devnull)[0] == 0
    code, out, _ = run(capsys, *told, "-o", plan, "--certificate", "-")
    assert (code, json.loads(out)["schema"]) == (0, schemas[1])

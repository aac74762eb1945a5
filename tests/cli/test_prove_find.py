"""`sortedf prove find`: files that anyone can check, the same for the same seed; Ctrl-C."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from running import document, run

from sortedf.proofs_check import finder
from sortedf.proofs_check.worst_case import check_case

COMMAND = ("prove", "find", "--policy", "svf", "--kv-tokens", "40", "--requests", "20")

INTERRUPTED = """
import os, signal
from sortedf.cli.main import run
from sortedf.proofs_check import finder

signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background

def changed(*arguments):
    global tried
    tried += 1
    if tried == 30:
        os.kill(os.getpid(), signal.SIGINT)
    return go_on(*arguments)

tried, go_on, finder.changed = 0, finder.changed, changed
run()
"""


def test_files_and_account_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder checks, and says what the JSON says; again, byte for byte the same."""
    folders = [tmp_path / "one", tmp_path / "two"]
    said = [
        document(capsys, *COMMAND, "--iterations", 80, "--seed", 4, "-o", folder, "--quiet")
        for folder in folders
    ]
    assert said[0] == said[1]
    row = check_case(folders[0]).to_dict()
    assert said[0] == row | {
        "seed": 4,
        "iterations": 80,
        "stop_reason": "iteration_limit",
        "instance_sha256": json.loads((folders[0] / "best.json").read_text())["instance_sha256"],
        "version": said[0]["version"],
    }
    assert 1 <= row["ratio_at_least"] <= row["ratio_at_most"]
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes()
    for name in ("policy.json", "best.json", "certificate.json"):
        code, _, err = run(capsys, "verify", folders[0] / name, folders[0] / "backlog.csv")
        assert code == 0, err


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Policy, budget and both ends of the bracket, on stdout alone."""
    code, out, err = run(capsys, *COMMAND, "--iterations", 20)
    assert (code, err) == (0, "")
    assert "svf" in out
    assert "ratio from" in out


def test_a_time_limit_stops_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever comes first; a tenth of a second here."""
    said = document(capsys, *COMMAND, "--time-limit", 0.1, "--iterations", 10**9)
    assert said["stop_reason"] == "time_limit"


def test_ctrl_c_keeps_the_worst_so_far(tmp_path: Path) -> None:
    """The files are written and check; the program ends with 130."""
    folder = tmp_path / "case"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            INTERRUPTED,
            *COMMAND,
            "--time-limit",
            "3000",
            "--json",
            "-o",
            folder,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 130, done.stderr
    said = json.loads(done.stdout)
    assert (said["stop_reason"], said["iterations"]) == ("interrupted", 29)
    assert done.stderr.splitlines()[-2:] == ["this is the worst so far", "interrupted"]
    assert check_case(folder).to_dict().items() <= said.items()


def test_a_folder_that_cannot_be_is_told_before_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, exit code 3, and nothing was searched for."""
    monkeypatch.delattr(finder, "changed")
    (tmp_path / "file").write_text("")
    code, out, err = run(capsys, *COMMAND, "-o", tmp_path / "file")
    assert (code, out) == (3, "")
    assert err == f"{tmp_path / 'file'}: cannot be made a folder: File exists\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policy", "improve"), "improve is no fixed rule"),
        (("--policy", "nobody"), "there is no solver 'nobody'"),
        (("--policy", "svf", "--kv-tokens", "1"), "a request takes 2 tokens at least"),
        (("--policy", "svf", "--kv-tokens", "100000000000"), "take a smaller budget or fewer"),
        (("--policy", "svf", "--requests", "1"), "--requests"),
        (("--policy", "svf", "--requests", "1000000000"), "--requests"),
        (("--policy", "svf", "--time-limit", "0"), "the time limit is 0.0 seconds"),
        ((), "--policy"),
    ],
)
def test_usage(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr, exit code 2."""
    code, out, err = run(capsys, "prove", "find", *arguments)
    assert (code, out) == (2, "")
    assert said in err

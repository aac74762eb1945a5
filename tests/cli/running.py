"""How tests run a command line: in this process, or as a program of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sortedf.cli.main import main

Run = tuple[int, str, str]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Run:
    """Run a command line in this process; gives exit code, stdout and stderr."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """Run a command with --json and read the one document that it prints."""
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


def program(*arguments: object, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """Run the program as a process of its own."""
    command = [sys.executable, "-c", "from sortedf.cli.main import run; run()"]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False, **kwargs
    )


def on_terminal(out: Path, *arguments: object) -> tuple[int, bytes]:
    """Run the program with stderr on a terminal and stdout in a file; exit code, what was drawn."""
    import pty

    leader, follower = pty.openpty()
    command = [sys.executable, "-c", "from sortedf.cli.main import run; run()"]
    with out.open("wb") as stdout:
        process = subprocess.Popen([*command, *map(str, arguments)], stdout=stdout, stderr=follower)
        os.close(follower)
        drawn = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:  # Linux: the other end has been closed
                break
            if not part:
                break
            drawn += part
        code = process.wait()
    os.close(leader)
    return code, drawn

"""Standard output that is closed, full or read by nobody, and what it is written in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from running import program

COMMAND = [sys.executable, "-m", "sortedf"]
BUDGET = ["kv-budget", "--num-gpu-blocks", "50", "-q"]
BACKLOG = "id,prompt_tokens,output_tokens\na,5,3\nb,2,7\nc,9,1\n"

WRITING = [["--help"], ["--version"], BUDGET, [*BUDGET, "--json"], ["generate", "mix", "-n", "9"]]
"""Each way in which a command writes: the parser, a table, a document, bytes."""


def failing(*arguments: object, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], stderr=subprocess.PIPE, text=True, check=False, **kwargs
    )
    assert "Traceback" not in done.stderr
    return done


def without(*descriptors: int) -> Any:
    """Close descriptors in the program before it starts."""

    def close() -> None:
        for number in descriptors:
            os.close(number)

    return close


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", WRITING)
def test_a_full_disk_behind_stdout_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = failing(*arguments, stdout=full)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("standard output cannot be written: ")


@pytest.mark.parametrize("arguments", WRITING)
def test_a_closed_stdout_is_one_line(arguments: list[str]) -> None:
    done = failing(*arguments, preexec_fn=without(1))
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == "standard output cannot be written: it is closed"


@pytest.mark.parametrize("arguments", WRITING)
def test_a_pipe_that_nobody_reads_ends_it_quietly(arguments: list[str]) -> None:
    """As SIGPIPE ends other programs, by the code that a shell gives for it."""
    reader, writer = os.pipe()
    os.close(reader)
    done = failing(*arguments, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + 13, "")


def test_a_reader_that_goes_away_early() -> None:
    shell = " ".join(f'"{part}"' for part in [*COMMAND, "generate", "mix", "-n", "200000"])
    done = subprocess.run(
        f"{shell} | head -n 1", shell=True, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("id,prompt_tokens,output_tokens\n", "")


@pytest.mark.parametrize("closed", [(1,), (0, 1), (0, 1, 2)])
def test_files_are_written_whatever_is_closed(closed: tuple[int, ...], tmp_path: Path) -> None:
    """A file that is opened next does not become stdout; nothing to say there is no fault."""
    path = tmp_path / "b.csv"
    done = failing("generate", "mix", "-n", 3, "-o", path, "-q", preexec_fn=without(*closed))
    assert (done.returncode, done.stderr) == (0, "")
    expected = program("generate", "mix", "-n", 3).stdout
    assert path.read_text() == expected
    done = failing("generate", "mix", "-n", 3, "-o", path, "--json", preexec_fn=without(*closed))
    assert done.returncode == 3
    assert path.read_text() == expected


def test_a_closed_stderr_and_narrow_encodings(tmp_path: Path) -> None:
    """A closed stderr never spills into stdout; any encoding of stdout gets its document."""
    command = [sys.executable, "-m", "sortedf", "kv-budget", "--num-gpu-blocks", "50", "--json"]
    shell = " ".join(f'"{part}"' for part in command)
    done = subprocess.run(f"{shell} 2>&-", shell=True, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["kv_tokens"] == 784
    path = tmp_path / "ünï.csv"
    path.write_text(BACKLOG.replace("a,", "ä,"))
    for flag in ([], ["--json"]):
        done = program(
            "solve", path, "--kv-tokens", 3, *flag, env=os.environ | {"PYTHONIOENCODING": "ascii"}
        )
        assert done.returncode == 4
        assert "Traceback" not in done.stderr
    done = program(
        "generate", "mix", "-n", 2, "-o", path, "--json", env=os.environ | {"LC_ALL": "C"}
    )
    assert json.loads(done.stdout)["output"] == str(path)

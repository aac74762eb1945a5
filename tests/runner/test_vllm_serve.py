"""`vllm serve` with the scheduler, on the CPU: predictions come with requests over HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from real_engine import ROOT, interpreter
from run_on_vllm import make_model

pytestmark = pytest.mark.vllm

COMMAND = Path(__file__).parent / "drivers" / "vllm_command.py"

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
}
SECONDS = 300
"""For which the server is waited, on a machine that is busy."""


class Server:
    """A server that runs."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.ended: list[str] = []

    def complete(self, name: str, output: int, **xargs: int) -> None:
        """Ask for an output of so many tokens; note when it has come."""
        body: dict[str, Any] = {
            "model": "tiny",
            "prompt": list(range(10, 30)),
            "max_tokens": output,
            "ignore_eos": True,
        }
        if xargs:
            body["vllm_xargs"] = xargs
        request = urllib.request.Request(
            f"{self.address}/v1/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            found = json.load(answer)
        assert found["usage"]["completion_tokens"] == output
        self.ended.append(name)

    def present(self) -> int:
        """Count the requests that run or wait."""
        with urllib.request.urlopen(f"{self.address}/metrics", timeout=SECONDS) as answer:
            lines = answer.read().decode().splitlines()
        names = ("vllm:num_requests_running{", "vllm:num_requests_waiting{")
        return sum(int(float(line.split()[-1])) for line in lines if line.startswith(names))

    def wait_for(self, count: int) -> None:
        """Wait until so many requests are there."""
        wait(lambda: self.present() == count)


def wait(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def served(model: Path, section: dict[str, Any], errors: Path) -> Iterator[Server]:
    """Start a server for one request at a time, and stop it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [
        *(str(interpreter()), str(COMMAND), "serve", str(model)),
        *("--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port)),
        *("--load-format", "dummy", "--dtype", "float32", "--enforce-eager"),
        *("--block-size", "32", "--kv-cache-memory-bytes", str(1 << 26)),
        *("--max-model-len", "512", "--max-num-seqs", "1"),
        *("--scheduler-cls", "sortedf.runner.vllm_scheduler.PlannedScheduler"),
        *("--additional-config", json.dumps({"sortedf": section})),
    ]
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            arguments, stdout=stderr, stderr=stderr, env=os.environ | ENVIRONMENT
        )
    address = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        assert process.poll() is None, errors.read_text()[-3000:]
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        wait(ready)
        yield Server(address)
        process.send_signal(signal.SIGINT)
        process.wait(SECONDS)
    finally:
        process.kill()
        process.wait()


def test_short_ones_overtake_long_ones(tmp_path: Path) -> None:
    """While one runs, others come: long ones without a prediction, then short ones with one.

    The order is that of predicted volumes: by `vllm_xargs`, else by `output_tokens`, of which a
    request does not take more than its `max_tokens`.
    """
    model = make_model(tmp_path / "model")
    section = {"policy": "svf", "output_tokens": 30}
    asked: list[tuple[str, int, dict[str, int]]] = [
        ("tells 45", 60, {"sortedf_output_tokens": 45}),
        ("counts as 30", 40, {}),
        ("tells 12", 12, {"sortedf_output_tokens": 12}),
        ("counts as 20", 20, {}),
        ("tells 4", 4, {"sortedf_output_tokens": 4}),
    ]
    with (
        served(model, section, tmp_path / "errors") as server,
        ThreadPoolExecutor(len(asked) + 1) as threads,
    ):
        sent: list[Future[None]] = [threads.submit(server.complete, "first", 400)]
        server.wait_for(1)
        for number, (name, output, xargs) in enumerate(asked, 2):
            sent.append(threads.submit(server.complete, name, output, **xargs))
            server.wait_for(number)
        for future in sent:
            future.result()
        assert server.ended == [
            "first",
            "tells 4",
            "tells 12",
            "counts as 20",
            "counts as 30",
            "tells 45",
        ]

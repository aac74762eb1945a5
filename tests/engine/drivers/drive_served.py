"""Serve requests on the whole engine of vLLM, on the CPU, as they come, and tell of every step.

Runs in the environment of vLLM, not in the project's. Lines of stdin are JSON objects. The first
has ``settings`` and ``model`` as in drive_engine.py. When the engine is there ``{}`` is answered.
Then a line says by which ``clock`` it goes from now on, when nothing is left to do; or it brings
requests, ``new``: a list of [name, prompt, output] (a number, tokens, tokens), which the engine has
before its next step.

By the clock ``wall`` the engine runs by itself as long as it has work. By the clock ``processor``
it does one step for each line, which begins ``at`` the second that the line says and takes as long
as the process was on a processor since the step before: what else runs on the machine, and whoever
asks, cost it nothing.

A step is told of in a line: ``begin`` and ``end`` in seconds; ``tokens``, a list of [name, output
tokens so far] of those that got one; ``ended``, names; ``running`` and ``waiting`` as the step was
scheduled; ``work`` as in drive_engine.py; ``preempted``, how many.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import threading
import time
from queue import SimpleQueue
from typing import Any

from drive_engine import ANSWERS, VOCABULARY, Recorder, build, number
from vllm import SamplingParams


class Server:
    """The engine between its inbox and its reports."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.scheduler = engine.engine_core.engine_core.scheduler
        self.recorder = Recorder(self.scheduler)
        self.by_lines = False
        self.state = 0, 0
        plain = self.scheduler.schedule

        def schedule(*args: Any, **kwargs: Any) -> Any:
            chosen = plain(*args, **kwargs)
            self.state = len(self.scheduler.running), len(self.scheduler.waiting)
            return chosen

        self.scheduler.schedule = schedule

    def take(self, new: list[list[int]]) -> None:
        """Add requests."""
        for name, prompt, output in new:
            tokens = random.Random(name).choices(range(VOCABULARY), k=prompt)
            self.engine.add_request(
                str(name),
                {"prompt_token_ids": tokens},
                SamplingParams(max_tokens=output, ignore_eos=True, detokenize=False),
            )

    def step(self) -> dict[str, Any]:
        """Do one step in which something runs."""
        done, ran = len(self.recorder.calls), self.recorder.ran
        answers = []
        while self.recorder.ran == ran:
            answers += self.engine.step()
        calls = self.recorder.calls[done:]
        return {
            "tokens": [[number(one.request_id), len(one.outputs[0].token_ids)] for one in answers],
            "ended": [number(one.request_id) for one in answers if one.finished],
            "running": self.state[0],
            "waiting": self.state[1],
            "work": self.recorder.work[-1],
            "preempted": sum(len(victims) for _, victims in calls),
        }

    def serve(self, inbox: SimpleQueue[str | None]) -> None:
        """Go on until the inbox is closed."""
        begin, mark = 0.0, time.process_time()
        while True:
            busy = self.engine.has_unfinished_requests()
            if self.by_lines or not busy or not inbox.empty():
                if (line := inbox.get()) is None:
                    return
                told = json.loads(line)
                if "clock" in told:
                    self.by_lines = told["clock"] == "processor"
                    continue
                self.take(told["new"])
                if not self.by_lines:
                    begin = begin if busy else time.monotonic()
                    continue
                begin = told["at"]
            report = self.step()
            if self.by_lines:
                now = time.process_time()
                end, mark = begin + now - mark, now
            else:
                end = time.monotonic()
            ANSWERS.write(json.dumps({"begin": begin, "end": end, **report}) + "\n")
            ANSWERS.flush()
            begin = end


def main() -> None:
    """Build the engine and serve."""
    told = json.loads(sys.stdin.readline())
    with tempfile.TemporaryDirectory() as folder:
        llm = build(folder, told["settings"], told["model"])
        server = Server(llm.llm_engine)
        ANSWERS.write("{}\n")
        ANSWERS.flush()
        inbox: SimpleQueue[str | None] = SimpleQueue()

        def read() -> None:
            for line in sys.stdin:
                inbox.put(line)
            inbox.put(None)

        threading.Thread(target=read, daemon=True).start()
        server.serve(inbox)


if __name__ == "__main__":
    main()

"""What the planned scheduler does that a replay does not know, on vLLM's real classes.

Runs in the environment of vLLM, not in the project's:

    python check_scheduler.py > answers.json

Each function in CHECKS drives a scheduler with fake model outputs and answers with plain data; all
answers come as one JSON object.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from typing import Any

import vllm
from drive_scheduler import Machine, prepare
from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.request_queue import PriorityRequestQueue
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request, RequestStatus

from sortedf.errors import SortedfError
from sortedf.runner.key_queue import KeyQueue
from sortedf.runner.vllm_interface import check_interface

SETTINGS = {
    "num_gpu_blocks": 13,
    "block_size": 4,
    "max_num_batched_tokens": 64,
    "max_num_seqs": 8,
    "max_model_len": 48,
    "long_prefill_token_threshold": 0,
    "long_prefill_token_threshold_adaptive": False,
    "enable_chunked_prefill": True,
    "watermark": 0.0,
    "scheduler_reserve_full_isl": True,
    "policy": "planned",
    "lookahead": 1,
    "async_scheduling": False,
    "enable_prefix_caching": False,
    "shared_blocks": 0,
}


def machine(lengths: list[tuple[int, int]], told: list[dict[str, Any]], **section: Any) -> Machine:
    """Give a scheduler, with requests of these lengths and ``extra_args`` that have arrived."""
    n = len(lengths)
    made = Machine(
        FOLDER,
        {
            "settings": SETTINGS,
            "section": section,
            "prompt": [prompt for prompt, _ in lengths],
            "output": [output for _, output in lengths],
            "extra_args": told,
            "arrivals": [0] * n,
            "priorities": [0] * n,
            "stamps": list(range(n)),
            "aborts": [None] * n,
            "seconds": [1, 0, 0, 0],
        },
    )
    made.take_inputs(0)
    return made


def admitted(made: Machine) -> list[int]:
    """Run to the end and give the requests in the order of their first admission."""
    assert "calls" in made.run()
    return [row[0] for rows, _ in made.calls for row in rows if row[2] == 1]


def places(*which: int | None) -> list[dict[str, Any]]:
    """Places in the plan, as requests bring them."""
    return [{} if place is None else {"sortedf_place": place} for place in which]


def unplanned() -> list[int]:
    """Admit those without a place behind all that have one, by arrival."""
    return admitted(machine([(20, 20)] * 5, places(None, 2, None, 0, 1)))


def volumes() -> list[list[int]]:
    """Orders by volume: of the predicted output, or of max_tokens; and by one bit."""
    lengths = [(10, 30), (20, 10), (4, 30), (30, 10)]
    predicted = [{"sortedf_output_tokens": 5}, {}, {}, {}]
    by_bit = {"policy": "svf-1bit", "threshold": 12, "short": 8, "long": 16}
    return [
        admitted(machine(lengths, [{}] * 4, policy="svf")),
        admitted(machine(lengths, predicted, policy="svf")),
        admitted(machine(lengths, [{}] * 4, **by_bit)),
    ]


def nonsense() -> list[int]:
    """Leave out what a request tells that makes no sense; the engine lives."""
    told: list[dict[str, Any]] = [
        {"sortedf_place": "first"},
        {"sortedf_output_tokens": -4},
        {"sortedf_place": 1},
    ]
    return admitted(machine([(20, 20)] * 3, told))


def without_predictions() -> list[int]:
    """Count who runs at first: room for max_tokens; for what the settings say; none kept."""
    counts = []
    for section in ({}, {"output_tokens": 5}, {"room": False}):
        made = machine([(8, 32)] * 6, [{}] * 6, **section)
        made.schedule()
        counts.append(len(made.scheduler.running))
        made = machine([(8, 32)] * 6, [{}] * 6, **section)
        admitted(made)
    return counts


def blocked() -> list[Any]:
    """Who waits for a grammar is passed over, holds nobody up, and comes when it is ready."""
    made = machine([(20, 12)] * 3, places(0, 1, 2))
    first = made.scheduler.requests["0"]
    first.status = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
    chosen, output, _ = made.schedule()
    others = sorted(chosen.num_scheduled_tokens)
    made.update(chosen, output, 0)
    first.status = RequestStatus.WAITING
    return [others, admitted(made)]


def aborted() -> list[int]:
    """Give the room of what is aborted, running or waiting, to the next."""
    made = machine([(20, 24)] * 5, places(0, 1, 2, 3, 4))
    chosen, output, _ = made.schedule()
    made.update(chosen, output, 0)
    made.scheduler.finish_requests(["0", "1"], RequestStatus.FINISHED_ABORTED)
    assert not made.scheduler._room.held
    return admitted(made)


def paused() -> list[Any]:
    """Nothing starts while the engine is paused; then the plan, not the arrival, says who."""
    made = machine([(20, 24)] * 3, places(2, 1, 0))
    made.scheduler.set_pause_state(PauseState.PAUSED_ALL)
    counts = [len(made.schedule()[0].num_scheduled_tokens) for _ in range(3)]
    made.scheduler.set_pause_state(PauseState.UNPAUSED)
    made.calls.clear()
    return [counts, admitted(made)]


def reset() -> list[Any]:
    """When all that run are preempted from outside, their room is given back; they end."""
    made = machine([(12, 12)] * 4, places(0, 1, 2, 3))
    chosen, output, _ = made.schedule()
    made.update(chosen, output, 0)
    made.scheduler.reset_prefix_cache(reset_running_requests=True)
    held = len(made.scheduler._room.held)
    assert "calls" in made.run()
    return [held, [time is not None for time in made.done]]


def queue() -> bool:
    """Get from the queue what vLLM's own by priority gives, whatever is done to both."""
    rng = random.Random(5)
    for _ in range(200):
        ours, theirs = KeyQueue(), PriorityRequestQueue()
        for number in range(60):
            request = Request(
                request_id=str(number),
                prompt_token_ids=[1],
                sampling_params=SamplingParams(max_tokens=1),
                pooling_params=None,
                arrival_time=rng.randint(0, 2),
                priority=rng.randint(0, 2),
            )
            for one in (ours, theirs):
                one.add_request(request)
            if rng.random() < 0.3:
                assert ours.peek_request() is theirs.peek_request()
                assert ours.pop_request() is theirs.pop_request()
            if rng.random() < 0.2 and ours:
                gone = rng.sample(list(theirs), rng.randint(1, len(theirs)))
                for one in (ours, theirs):
                    one.remove_requests(gone)
                    one.prepend_requests(gone[1:])
            assert list(ours) == list(theirs)
            assert (len(ours), bool(ours)) == (len(theirs), bool(theirs))
    ours.add_request(request)
    ours.closed = True
    return len(ours) > 0 and not ours


def interface() -> list[str]:
    """Warn of a version that was not tested; refuse an engine without what is needed."""

    class Odd(Scheduler):  # type: ignore[misc]
        _free_request_blocks = None

        def update_from_output(self, one: Any) -> None:
            """Do with fewer arguments than vLLM's."""

    told: list[str] = []
    check_interface(Scheduler, vllm.__version__, told.append)
    assert not told
    check_interface(Scheduler, "0.99.1", told.append)
    try:
        check_interface(Odd, "0.99.1", told.append)
    except SortedfError as error:
        told.append(str(error))
    return told


def settings() -> list[str]:
    """End the start in one line for settings that make no sense."""
    try:
        machine([], [], polcy="svf")
    except SortedfError as error:
        return [str(error)]
    return []


CHECKS = (
    unplanned,
    volumes,
    nonsense,
    without_predictions,
    blocked,
    aborted,
    paused,
    reset,
    queue,
    interface,
    settings,
)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as FOLDER:
        prepare(FOLDER)
        answers = {check.__name__: check() for check in CHECKS}
    sys.stdout.write(json.dumps(answers) + "\n")

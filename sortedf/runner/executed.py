"""The attempts of a run folder, as they were recorded: what was executed, and how it went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sortedf.engine.run_folder import META, REQUESTS, SERIES, Run, read_run
from sortedf.engine.step_log import STEPS_FILE, read_step_log
from sortedf.errors import Fault, InputError
from sortedf.instances import Plan, read_plan
from sortedf.model import Instance
from sortedf.runner.folder_files import ATTEMPTS, ENGINE_LOG, LOCK, OUTPUT, PLAN
from sortedf.runner.predicted import PREDICTION, read_prediction, recomputed_tokens
from sortedf.runner.run_identity import INPUTS, MANIFEST, read_manifest

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One start of a run; arrays of shape (n,) by request that was answered, in the plan's order.

    Parameters
    ----------
    name
        Its number.
    path
        Its folder.
    handover
        How the engine was given the plan.
    run
        Lengths as they were, and times. All requests arrive at 0, the moment at which the engine
        began with the first.
    predicted_tokens
        Predicted output of each (tokens).
    preempted
        How often each was preempted.
    whole
        Whether all that it was given was done, or refused.
    jobs
        Sequences that it was given; ``None`` where it is not known.
    refused
        Of these, without an answer.
    seconds_to_hand_over
        From the first request that the engine was given until it began.
    warm_up
        What the engine did before, ``None`` for nothing.
    prediction
        What was predicted before it began, if anything was.
    """

    name: str
    path: Path
    handover: str
    run: Run
    predicted_tokens: IntArray
    preempted: IntArray
    whole: bool
    jobs: int | None
    refused: int
    seconds_to_hand_over: float
    warm_up: Mapping[str, Any] | None
    prediction: Mapping[str, Any] | None

    @property
    def out_of_order(self) -> int:
        """Requests before which one was admitted that the plan has later."""
        admitted = self.run.admitted
        later = np.minimum.accumulate(admitted[::-1])[::-1]
        return int((admitted[:-1] > later[1:]).sum())

    def recomputed_tokens(self) -> int | None:
        """Tokens that were computed again; see :func:`sortedf.runner.predicted.recomputed_tokens`.

        ``None`` where that cannot be told: not all requests ended, prefix caching found some again,
        or there is no log of the steps.
        """
        steps = self.path / STEPS_FILE
        caching = self.run.settings.enable_prefix_caching
        if not self.whole or self.refused or caching or not steps.is_file():
            return None
        instance = self.run.instance
        return recomputed_tokens(
            read_step_log(steps).work, instance.prompt_tokens, instance.output_tokens
        )


def run_folder_of(path: str | Path) -> tuple[Path, str | None] | None:
    """Tell the folder of a run of `sortedf run`, and which attempt is meant; ``None`` for another.

    ``DIR`` means all of them, ``DIR/attempts/2`` the second.
    """
    path = Path(path)
    if (path / MANIFEST).is_file():
        return path, None
    parent = path.resolve().parent
    if parent.name == ATTEMPTS and (parent.parent / MANIFEST).is_file():
        return path / ".." / "..", path.resolve().name
    return None


def records_of(path: str | Path) -> list[Path]:
    """Files that a run of `sortedf run` is kept in, its answers among them; of an attempt, too.

    What else lies in the folder, pages and step times, is not among them.
    """
    found = run_folder_of(path)
    if found is None:
        return []
    of_run = MANIFEST, INPUTS, OUTPUT, LOCK, f"{PLAN}.json*"
    of_attempt = META, REQUESTS, SERIES, STEPS_FILE, PREDICTION, ENGINE_LOG
    return [file for name in (*of_run, *of_attempt) for file in found[0].rglob(name)]


def read_attempts(folder: Path, *, only: str | None = None) -> list[Attempt]:
    """Read the attempts of a run in which something was answered, first to last.

    Raises
    ------
    InputError
        When the folder holds no run, or one whose records cannot be read.
    """
    plan = read_plan(folder / str(read_manifest(folder)["plan"]))
    paths = attempts_in(folder)
    return [_read_attempt(path, plan) for path in paths if only in (None, path.name)]


def attempts_in(folder: Path) -> list[Path]:
    """Give the folders of the attempts in which something was answered, first to last."""
    attempts = folder / ATTEMPTS
    numbers = sorted(int(path.name) for path in attempts.glob("*") if path.name.isdecimal())
    return [path for number in numbers if _has_answers(path := attempts / str(number))]


def _has_answers(path: Path) -> bool:
    requests = path / REQUESTS
    return (path / META).is_file() and requests.is_file() and requests.stat().st_size > 0


def _read_attempt(path: Path, plan: Plan) -> Attempt:
    run = read_run(path)
    meta = json.loads((path / META).read_bytes())
    rows = _rows(path / REQUESTS, len(run.instance))
    places = {name: place for place, name in enumerate(plan.ids)}
    if unknown := [name for name in run.instance.ids if name not in places]:
        text = f"request {unknown[0]!r} is not in the plan of this run"
        raise InputError([Fault(str(path / REQUESTS), None, text)])
    order = np.argsort([places[name] for name in run.instance.ids], kind="stable")
    refused = int(meta.get("num_refused") or 0)
    prediction = read_prediction(path)
    jobs = meta.get("num_jobs", None if prediction is None else prediction["n"])
    ended = len(run.instance) + refused
    begun = float(run.admitted.min())
    return Attempt(
        name=path.name,
        path=path,
        handover=str(meta.get("handover") or "planned"),
        run=_in_order(run, order, begun),
        predicted_tokens=np.array([row[0] for row in rows], np.int64)[order],
        preempted=np.array([row[1] for row in rows], np.int64)[order],
        whole=meta.get("finished_at") is not None and jobs in (None, ended),
        jobs=jobs,
        refused=refused,
        seconds_to_hand_over=begun - float(run.arrivals.min()),
        warm_up=meta.get("warm_up"),
        prediction=prediction,
    )


def _rows(path: Path, n: int) -> list[tuple[int, int]]:
    """Predicted output and preemptions of the requests that :func:`read_run` has read and checked.

    That leaves a torn last line out.
    """
    rows: list[tuple[int, int]] = []
    with path.open("rb") as file:
        for line in file:
            if len(rows) < n and line.strip():
                row = json.loads(line)
                rows.append((int(row["predicted_output_toks"]), int(row["preemptions"])))
    return rows


def _in_order(run: Run, order: npt.NDArray[np.intp], begun: float) -> Run:
    """Sort a run as the plan is, on the clock that begins with the first step."""
    instance = run.instance
    sorted_instance = Instance(
        instance.prompt_tokens[order],
        instance.output_tokens[order],
        instance.kv_tokens,
        ids=[instance.ids[place] for place in order.tolist()],
    )
    return replace(
        run,
        instance=sorted_instance,
        arrivals=np.zeros(len(order)),
        admitted=run.admitted[order] - begun,
        first_token=run.first_token[order] - begun,
        last_token=run.last_token[order] - begun,
    )

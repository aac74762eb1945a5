"""`sortedf validate --against`: the backlog of a run in other orders, on the same engine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sortedf.cli.console import Console
from sortedf.cli.run_end import end, how_to_go_on
from sortedf.cli.run_progress import RunWatch
from sortedf.errors import Fault, InputError, OptionError

if TYPE_CHECKING:
    from sortedf.engine import Calibration
    from sortedf.instances import Plan
    from sortedf.runner.engines import Engine
    from sortedf.runner.executed import Attempt
    from sortedf.runner.preparing import Prepared
    from sortedf.runner.run_attempt import Start
    from sortedf.runner.run_options import RunOptions

SPOKEN = {"sjf": "mcsf"}
"""Names that others use for orders, and what they are called here."""


def read_names(text: str, console: Console) -> list[str]:
    """Read the names of orders, any of the solvers', with commas between them.

    Raises
    ------
    OptionError
        For a name that is not known, and for one that stands there twice.
    """
    from sortedf.solvers import find_solvers

    names = [name.strip() for name in text.split(",")]
    for spoken in SPOKEN.keys() & set(names):
        console.note(f"{spoken} is {SPOKEN[spoken]} here: shortest output first")
    known = ",".join(SPOKEN.get(name, name) for name in names)
    if known in ("fast", "all"):
        raise OptionError(f"--against {known}: name the orders, each is run on the engine")
    return [solver.name for solver in find_solvers(known)]


@dataclass(frozen=True)
class _Order:
    """An order to be run: how, its plan and what is to be done, and where its runs are."""

    name: str
    options: RunOptions
    prepared: Prepared
    folder: Path


@dataclass(frozen=True)
class Against:
    """The runs of other orders beside a run.

    Parameters
    ----------
    folder
        Of the run.
    names
        Of the orders.
    repeat
        How often each is run, and the plan, too; once, and the plan not again, where it is
        ``None``.
    step_times
        That predict each run before it begins.
    """

    folder: Path
    names: Sequence[str]
    repeat: int | None
    step_times: Calibration
    console: Console

    @property
    def _times(self) -> int:
        return self.repeat or 1

    def execute(self) -> int:
        """Execute what is not there yet; gives 0, or the exit code of what stopped it.

        Planned and handed-over orders take turns, so that a drift of the machine is everybody's.
        """
        from sortedf.runner.against import next_run, whole_runs
        from sortedf.runner.folder_files import LOCK
        from sortedf.runner.lock import FolderLock

        with _released(FolderLock(self.folder / LOCK)):
            orders = self._orders()
            for turn in range(1, self._times + 1):
                # Who comes later finds a warmer engine, so that each turn begins with another one.
                first = (turn - 1) % len(orders)
                turned = orders[first:] + orders[:first]
                missing = [order for order in turned if len(whole_runs(order.folder)) < turn]
                for handover in dict.fromkeys(order.options.handover for order in missing):
                    these = [order for order in missing if order.options.handover == handover]
                    with ExitStack() as stack:
                        start = self._shared(these[0], stack)
                        for order in these:
                            self.console.note(f"{order.name}, run {turn} of {self._times}")
                            if code := self._run(order, next_run(order.folder), start):
                                return code
        return 0

    def _run(self, order: _Order, folder: Path, start: Start) -> int:
        """Run an order once; gives the exit code of what stopped it, or 0."""
        from sortedf.runner.against import AGAINST
        from sortedf.runner.run_attempt import Execution

        watch = RunWatch(self.console)
        quoted = shlex.quote(str(self.folder))
        command = f"sortedf validate {quoted} --against {','.join(self.names)}"
        if self.repeat is not None:
            command += f" --repeat {self.repeat}"
        begun = [*(self.folder / AGAINST).glob("*/*"), folder]
        with how_to_go_on(command, begun, self.console):
            result = Execution(order.options, watch, str(folder)).execute(order.prepared, start)
        code = end(result, watch, command, self.console)
        return code if result.interrupted or result.died is not None else 0

    def runs(self) -> dict[str, list[Attempt]]:
        """Give the whole runs of each order, the plan first, as many for each as were asked for.

        Raises
        ------
        InputError
            When an order was not brought to its end.
        """
        from sortedf.runner.against import AGAINST, PLAN, whole_attempt, whole_runs

        found: dict[str, list[Attempt]] = {}
        for name in (PLAN, *self.names):
            if name == PLAN and not self._runs_plan():
                paths = [self.folder]
            else:
                paths = whole_runs(self.folder / AGAINST / name)[: self._times]
            attempts = [attempt for path in paths if (attempt := whole_attempt(path)) is not None]
            if len(attempts) < (self._times if paths != [self.folder] else 1):
                text = f"{name} has {len(attempts)} whole runs of {self._times}: nothing to compare"
                raise InputError([Fault(str(self.folder / AGAINST / name), None, text)])
            found[name] = attempts
        return found

    def _runs_plan(self) -> bool:
        """Whether the plan is run again: beside the others, or since it was not in one piece."""
        from sortedf.runner.against import whole_attempt

        return self.repeat is not None or whole_attempt(self.folder) is None

    def _orders(self) -> list[_Order]:
        from sortedf.runner.against import AGAINST, PLAN
        from sortedf.runner.engines import Handover
        from sortedf.runner.preparing import remembered_batch
        from sortedf.runner.run_identity import check_inputs, read_manifest
        from sortedf.runner.run_options import RunOptions

        manifest = read_manifest(self.folder)
        batch = remembered_batch(self.folder, manifest)
        options = replace(RunOptions.remembered(manifest), warm_up=True)
        path = self.folder / str(manifest["plan"])
        own = self._prepare(path, options, batch)
        check_inputs(self.folder, own.work.inputs)
        target = self.folder / AGAINST
        orders = [_Order(PLAN, options, own, target / PLAN)] if self._runs_plan() else []
        in_order = replace(options, handover=Handover.ORDER)
        for name in self.names:
            path = self._plan_of(name, own.plan, target / name / "plan.json")
            prepared = self._prepare(path, in_order, batch)
            orders.append(_Order(name, in_order, prepared, target / name))
        return orders

    def _prepare(self, path: Path, options: RunOptions, batch: str | None) -> Prepared:
        """Prepare a run on an engine like the first one's, predicted by the same step times."""
        from sortedf.runner.preparing import prepare

        times = self._engine_times(options.engine)
        prepared = prepare(str(path), batch, options, RunWatch(self.console), times)
        return replace(prepared, step_times=self.step_times)

    def _plan_of(self, name: str, plan: Plan, path: Path) -> Path:
        """Plan the same backlog by another solver, once: some give another plan each time."""
        from sortedf.instances import write_plan
        from sortedf.instances.files import make_folder
        from sortedf.solvers import solve

        if not path.is_file():
            make_folder(path.parent)
            with self.console.status(f"planning by {name}"):
                found = solve(plan.instance(), solver=name, block_size=plan.block_size, bound=False)
            write_plan(found, path, skipped=plan.skipped)
        return path

    def _shared(self, order: _Order, stack: ExitStack) -> Start:
        """Give an engine that is started for the first order that has something to do, for all."""
        from sortedf.runner.against import AGAINST
        from sortedf.runner.run_attempt import Execution

        execution = Execution(order.options, RunWatch(self.console), str(self.folder))
        engines: list[Engine] = []

        def start(log: Path) -> AbstractContextManager[Engine]:
            if not engines:
                own = self.folder / AGAINST / "engine.log"
                started = execution.started(order.prepared.engine_options, own)
                engines.append(stack.enter_context(started))
            return nullcontext(engines[0])

        return start

    def _engine_times(self, engine: str) -> Calibration:
        """Step times that the engine replay lives by: those of the run, whatever predicts it."""
        from sortedf.engine import Calibration
        from sortedf.engine.run_folder import META
        from sortedf.engine.step_time import parse_step_time
        from sortedf.runner.executed import read_attempts

        if engine != "replay":
            return self.step_times
        path = read_attempts(self.folder)[0].path / META
        model = json.dumps(json.loads(path.read_bytes())["step_time"])
        return Calibration(model=parse_step_time(model.encode(), str(path)))


@contextmanager
def _released(lock: Any) -> Iterator[None]:
    try:
        yield
    finally:
        lock.release()

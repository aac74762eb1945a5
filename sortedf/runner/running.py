"""A run from plan to answers: the front of the runner."""

from __future__ import annotations

from pathlib import Path

from sortedf.runner.preparing import remembered_batch
from sortedf.runner.run_attempt import Execution
from sortedf.runner.run_identity import read_manifest
from sortedf.runner.run_options import RunOptions
from sortedf.runner.run_result import RunResult
from sortedf.runner.watch import Unwatched, Watch


def run(
    plan: str | Path,
    batch: str | Path | None,
    folder: str | Path,
    options: RunOptions | None = None,
    *,
    watch: Watch | None = None,
) -> RunResult:
    """Execute a plan on an engine, every answer written as it comes.

    Parameters
    ----------
    plan
        Plan file.
    batch
        The OpenAI batch file that it is of; ``None`` for the plan alone, on the replay or with
        random prompts.
    folder
        Where to write; it is made, or is empty.
    options
        The engine, and how it answers; the replay by default.
    watch
        Is told how it goes, and can stop it.

    Raises
    ------
    InputError
        For files that cannot be read or written, and a batch that is not the plan's.
    StorageError
        When an answer cannot be written. What was written stays; :func:`resume` goes on.
    VerificationError
        When the plan does not hold.
    OptionError
        For options that do not go together, or that the engine does not take.
    BudgetError
        When the engine has less memory than the plan counts on.
    EngineError
        When the engine does not start. One that dies later is a result.
    """
    settled = (options or RunOptions()).settled()
    execution = Execution(settled, watch or Unwatched(), str(folder))
    return execution.go(str(plan), None if batch is None else str(batch))


def resume(
    folder: str | Path,
    options: RunOptions | None = None,
    *,
    plan: str | Path | None = None,
    batch: str | Path | None = None,
    retry_failed: bool = False,
    watch: Watch | None = None,
) -> RunResult:
    """Go on with a run that was stopped, whatever stopped it.

    Parameters
    ----------
    folder
        The run folder.
    options, plan, batch
        ``None`` for what the run was begun with. Others that would change answers are refused.
    retry_failed
        Also run again what was refused.
    watch
        Is told how it goes, and can stop it.

    Raises
    ------
    InputError
        When there is no run, another process is at work on it, or it was begun with something else.
    StorageError, VerificationError, OptionError, BudgetError, EngineError
        See :func:`run`.
    """
    begun = read_manifest(folder)
    execution = Execution(
        (options or RunOptions.remembered(begun)).settled(),
        watch or Unwatched(),
        str(folder),
        begun=begun,
        retry_failed=retry_failed,
    )
    path = Path(folder) / begun["plan"] if plan is None else plan
    found = remembered_batch(folder, begun) if batch is None else str(batch)
    return execution.go(str(path), found)

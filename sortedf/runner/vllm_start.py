"""Starts vLLM: quietly, and with one line that says why where it does not."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from types import ModuleType
from typing import Any

from sortedf.errors import EngineError, OptionError
from sortedf.runner.engines import Handover
from sortedf.runner.library_output import output_into, reason
from sortedf.runner.scheduler_settings import SchedulerSettings
from sortedf.runner.vllm_options import VllmOptions
from sortedf.runner.waiting_keys import ENGINE

INSTALL = (
    "vLLM is not installed in the environment of this Python; on a GPU: pip install "
    "'sortedf[vllm]', on a CPU: see \"On a CPU\" in the documentation of the runner"
)

# Where a traceback ends, behind what vLLM puts before each line of its log.
_EXCEPTION = re.compile(r"(?:^|\] )(?:\w+\.)*\w*(?:Error|Exception): (\S.*)")


def start_vllm(options: VllmOptions, *, log: Path, counter: Any) -> Any:
    """Start vLLM and return its ``LLMEngine``.

    Parameters
    ----------
    log
        File to which goes all that vLLM and what it is made of print, here and in its processes.
    counter
        Is told about every step, as vLLM's ``StatLoggerBase`` is.

    Raises
    ------
    OptionError
        For options that vLLM refuses.
    EngineError
        When it is not installed, not a version that was tested, or does not start.
    """
    if importlib.util.find_spec("vllm") is None:
        raise EngineError(INSTALL)
    _set_environment(options)
    began = log.stat().st_size if log.exists() else 0
    with output_into(log), _interrupts_kept_here(options.own_process), _main_kept_here():
        try:
            arg_utils, executors, engines = (
                importlib.import_module(f"vllm.{name}")
                for name in ("engine.arg_utils", "v1.executor", "v1.engine.llm_engine")
            )
            importlib.import_module("sortedf.runner.vllm_scheduler")  # knows the versions it is for
            _log_into(log)
            _let_modules_be_searched()
        except EngineError:
            raise
        except Exception as error:
            raise EngineError(f"vLLM cannot be imported: {reason(error)}; see {log}") from None
        try:
            config = arg_utils.EngineArgs(**options.engine_args()).create_engine_config()
            _set_scheduler(options, config)
        except Exception as error:
            raise OptionError(f"vLLM refuses its options: {reason(error)}") from None
        try:
            engine = engines.LLMEngine(
                config,
                executors.Executor.get_class(config),
                log_stats=True,
                stat_loggers=[lambda *_: counter],
                multiprocess_mode=options.own_process,
            )
        except Exception as error:
            cause = first_exception(log, began) if options.own_process else None
            raise EngineError(f"vLLM did not start: {cause or reason(error)}; see {log}") from None
        _log_into(log)  # it has set up its logging anew
        return engine


def _set_scheduler(options: VllmOptions, config: Any) -> None:
    """Have it scheduled, or recorded at least, by the runner's scheduler."""
    told = SchedulerSettings(
        policy="planned" if options.handover == Handover.PLANNED else ENGINE,
        steps_by_request=True,
        end_with_parent=options.own_process,
    )
    config.scheduler_config.scheduler_cls = "sortedf.runner.vllm_scheduler.PlannedScheduler"
    config.additional_config |= told.additional_config()


def _set_environment(options: VllmOptions) -> None:
    """Set what vLLM reads when it is imported or starts processes."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1" if options.own_process else "0"
    os.environ["VLLM_LOGGING_STREAM"] = "ext://sys.stderr"
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    if Path(options.model).exists():
        os.environ.setdefault("HF_HUB_OFFLINE", "1")


def _log_into(log: Path) -> None:
    """Lead what vLLM logs in this process into the file, from now on."""
    for handler in logging.getLogger("vllm").handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(log.open("a"))


def _let_modules_be_searched() -> None:
    """Give llvmlite's library an empty ``__dict__``.

    vLLM for the CPU looks into that of every object of every module, and starts beside numba only
    so: the library takes the name for that of a function of its own.
    """
    if (ffi := sys.modules.get("llvmlite.binding.ffi")) is not None:
        ffi.lib._fntab.setdefault("__dict__", {})


@contextmanager
def _interrupts_kept_here(own_process: bool) -> Iterator[None]:
    """Let Ctrl-C reach this process alone, so that the engine is ended in order.

    Processes inherit that the signal is blocked; here a thread that does not block it takes it.
    """
    if not own_process:
        yield
        return
    resource_tracker.ensure_running()  # starting it unblocks the signal
    ended = threading.Event()
    threading.Thread(target=ended.wait, daemon=True).start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        ended.set()


@contextmanager
def _main_kept_here() -> Iterator[None]:
    """Spare the engine's processes the import of the main module, which they have no use for.

    A script needs no ``if __name__ == "__main__"`` then, and what it imports is not in the way.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def first_exception(log: Path, begin: int) -> str | None:
    """Find the exception that ended a process of the engine: the first that its log tells of."""
    with log.open("rb") as file:
        file.seek(begin)
        text = file.read().decode(errors="replace")
    for line in text.splitlines():
        if (found := _EXCEPTION.search(line)) is not None:
            return found[1]
    return None

"""The file that says which instances there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from sortedf.engine.calibration import read_step_times
from sortedf.engine.settings import EngineSettings, with_version
from sortedf.errors import Fault, InputError, SortedfError
from sortedf.instances.json_text import JSON_ERRORS, json_fault
from sortedf.routing.instances import TASKS, EngineInstance
from sortedf.routing.workload import LONGEST_OUTPUT

SCHEMA = "sortedf.instances/1"


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    steptime: str
    kv_tokens: int
    prompt_price: float
    output_price: float
    quality: dict[str, float]
    mean_output: float = 1_550.0
    settings: dict[str, Any] = {}


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: str
    instances: list[_Entry]


def read_instances(path: str | Path) -> tuple[EngineInstance, ...]:
    """Read instances from a JSON file.

    ``{"schema": "sortedf.instances/1", "instances": [{"name", "steptime", "kv_tokens",
    "prompt_price", "output_price", "quality": {task: per cent}, "mean_output", "settings"},
    ...]}``: ``steptime`` is a packaged set or a file, ``settings`` are those of the engine under
    vLLM's names; ``mean_output`` and ``settings`` may be left out.

    Raises
    ------
    InputError
        For a file that is not that, naming the instance at fault.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise _fault(path, f"cannot be read: {error.strerror or error}") from None
    try:
        document = msgspec.json.decode(text, type=_Document)
    except JSON_ERRORS as error:
        raise _fault(path, f"is not a file of instances: {json_fault(text, error)}") from None
    if document.schema != SCHEMA:
        raise _fault(path, f"has schema {document.schema!r}; {SCHEMA!r} is expected")
    if not document.instances:
        raise _fault(path, "has no instance; give at least one")
    names = [entry.name for entry in document.instances]
    if twice := [name for name in names if names.count(name) > 1]:
        raise _fault(path, f"has two instances called {twice[0]!r}; give each its own name")
    return tuple(_instance(path, entry) for entry in document.instances)


def _instance(path: str | Path, entry: _Entry) -> EngineInstance:
    if missing := [task for task in TASKS if task not in entry.quality]:
        raise _fault(path, f"instance {entry.name!r} has no quality for the task {missing[0]!r}")
    if not entry.name.strip() or entry.name != entry.name.strip() or not entry.name.isprintable():
        raise _fault(path, f"an instance is called {entry.name!r}; give a name on one line")
    if not 1 <= entry.mean_output <= LONGEST_OUTPUT:
        raise _fault(
            path,
            f"mean_output of {entry.name!r} is {entry.mean_output!r}; give tokens, 1 to "
            f"{LONGEST_OUTPUT:,}",
        )
    if entry.steptime == "-":
        raise _fault(path, f"instance {entry.name!r}: steptime is '-'; name a set or a file")
    try:
        settings = EngineSettings.for_budget(entry.kv_tokens, **with_version(entry.settings))
        return EngineInstance(
            name=entry.name,
            step_time=read_step_times(entry.steptime).model,
            settings=settings,
            prompt_price=entry.prompt_price,
            output_price=entry.output_price,
            quality=entry.quality,
            mean_output=entry.mean_output,
        )
    except SortedfError as error:
        raise _fault(path, f"instance {entry.name!r}: {error}") from None
    except TypeError as error:
        word = str(error).rpartition(" ")[2]
        raise _fault(path, f"instance {entry.name!r}: no setting is called {word}") from None


def _fault(path: str | Path, message: str) -> InputError:
    return InputError([Fault(str(path), None, message)])

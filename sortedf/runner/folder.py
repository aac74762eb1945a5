"""A run folder, as far as a run needs it that nothing interrupts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from sortedf.errors import Fault, InputError
from sortedf.instances.files import make_folder
from sortedf.instances.json_text import json_object


class Status(StrEnum):
    """What became of a request."""

    ANSWERED = "answered"
    FAILED = "failed"


class Counts(NamedTuple):
    """Requests."""

    answered: int
    failed: int
    not_run: int


class RunFolder:
    """See the API in the runner's design; this one keeps no promises about crashes."""

    def __init__(self, path: Path, inputs: Mapping[str, str]) -> None:
        self.path = path
        self.notes: tuple[str, ...] = ()
        self.manifest: dict[str, Any] = json.loads((path / "manifest.json").read_text())
        self.status: dict[str, Status] = {}
        self._inputs = inputs
        self._errors: dict[str, Status] = {}
        self._unread: set[int] = set()
        number = len(list(path.glob("attempts/*"))) + 1
        self.attempt = path / "attempts" / str(number)
        make_folder(self.attempt)

    @classmethod
    def create(
        cls,
        path: str | Path,
        manifest: Mapping[str, Any],
        *,
        plan: bytes,
        plan_name: str,
        inputs: Mapping[str, str],
    ) -> RunFolder:
        """Make a folder for a run."""
        path = Path(path)
        make_folder(path)
        if any(path.iterdir()):
            raise InputError([Fault(str(path), None, "is not empty; name another folder")])
        name = "plan" + "".join(Path(plan_name).suffixes[-2:])
        (path / name).write_bytes(plan)
        (path / "manifest.json").write_text(json.dumps({**manifest, "plan": name}, indent=2))
        return cls(path, inputs)

    @classmethod
    def resume(
        cls,
        path: str | Path,
        manifest: Mapping[str, Any],
        *,
        inputs: Mapping[str, str],
        retry_failed: bool = False,
    ) -> RunFolder:
        """Go on with a run."""
        folder = cls(Path(path), inputs)
        if folder.output.exists():
            for text in folder.output.read_bytes().splitlines():
                folder._note(json_object(text) or {})
        if not retry_failed:
            folder.status |= folder._errors
        return folder

    @property
    def output(self) -> Path:
        """The output file."""
        return self.path / "output.jsonl"

    @property
    def plan(self) -> Path:
        """The copy of the plan."""
        return self.path / str(self.manifest["plan"])

    @property
    def counts(self) -> Counts:
        """How many are done."""
        answered = sum(status == Status.ANSWERED for status in self.status.values())
        failed = len(self._errors)
        return Counts(answered, failed + len(self._unread), len(self._inputs) - answered - failed)

    def append(self, line: Mapping[str, Any]) -> None:
        """Append a line to the output."""
        name = line["custom_id"]
        if name is None and line["error"]["line"] in self._unread:
            return
        if name is not None and (name in self.status or name not in self._inputs):
            raise ValueError(f"{name!r} is done, or is none of the inputs")
        with self.output.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self._note(line)
        if name in self._errors:
            self.status[name] = self._errors[name]

    def finish(self) -> Counts:
        """Say what became of all."""
        return self.counts

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _note(self, line: Mapping[str, Any]) -> None:
        name = line["custom_id"]
        if name is None:
            self._unread.add(line["error"]["line"])
        elif line["error"] is None:
            self.status[name] = Status.ANSWERED
            self._errors.pop(name, None)
        elif name not in self.status:
            self._errors[name] = Status.FAILED

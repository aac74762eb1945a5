"""The folder of an execution: what is done stands in it, whatever happens, and can be resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self

from sortedf.errors import InputError, StorageError
from sortedf.instances.files import write_whole
from sortedf.instances.json_values import BadLine, shown
from sortedf.runner import folder_files
from sortedf.runner.append_file import AppendFile, json_line, sync_folder
from sortedf.runner.lock import FolderLock
from sortedf.runner.output_lines import OutputLine, Status, read_line
from sortedf.runner.output_scan import Scan, repair_output, scan_output, standing_lines
from sortedf.runner.run_identity import (
    check_inputs,
    check_manifest,
    read_manifest,
    write_inputs,
    write_manifest,
)


class Counts(NamedTuple):
    """Requests, and input lines that are none (these among the failed); they add up to all."""

    answered: int
    failed: int
    not_run: int


class RunFolder:
    """A run folder that this process works on: made by :meth:`create` or :meth:`resume`.

    A context manager; on leaving it the output is forced to the disk and the lock released.

    Attributes
    ----------
    path
        The folder.
    manifest
        What identifies the run, as it stands in ``manifest.json``.
    attempt
        The folder of this start, ``attempts/N``, empty at first.
    notes
        What was found wrong in the output and mended on resume, a line each, for the user.
    """

    path: Path
    manifest: dict[str, Any]
    attempt: Path
    notes: tuple[str, ...]

    def __init__(
        self,
        path: Path,
        lock: FolderLock,
        inputs: Mapping[str, str],
        scan: Scan,
        retry: bool,
        made: Sequence[Path] | None = None,
    ) -> None:
        self.path = path
        self.manifest = read_manifest(path)
        self.notes = tuple(scan.notes)
        self._lock = lock
        self._inputs = inputs
        self._ledger = scan.ledger
        self._unread_now: set[int] = set()
        self._status = dict.fromkeys(scan.ledger.answered, Status.ANSWERED)
        if not retry:
            errors = scan.ledger.errors.items()
            failed = (name for name, (status, _) in errors if status is Status.FAILED)
            self._status.update(dict.fromkeys(failed, Status.FAILED))
        self._made = made
        self.attempt = folder_files.next_attempt(path / folder_files.ATTEMPTS)
        self._output = AppendFile(self.output)

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
        """Make a folder for a run, and begin its first attempt.

        Parameters
        ----------
        path
            A folder that does not exist, is empty, or holds what a killed call of this or a start
            that failed left.
        manifest
            What identifies the run, in values of JSON: all that must be the same on resume.
        plan
            The plan's file, byte for byte.
        plan_name
            Its name; the copy keeps the endings.
        inputs
            ``custom_id`` and hash of every request.

        Raises
        ------
        InputError
            When the folder holds anything else, cannot be written, or another process is at work
            on it.
        """
        path = Path(path)
        made = folder_files.make_missing(path)
        folder_files.check_unused(path)
        with folder_files.locked(path) as lock:
            folder_files.check_unused(path)
            folder_files.remove_temporary(path)
            for left in (path / folder_files.ATTEMPTS).glob("*"):
                folder_files.remove_attempt(left, keep_log=False)
            name = folder_files.copy_plan(path, plan, plan_name)
            write_inputs(path, inputs)
            # Last: with it the folder is that of a run.
            write_manifest(path, manifest, name)
            sync_folder(path)
            return cls(path, lock, inputs, Scan(), retry=False, made=made)

    @classmethod
    def resume(
        cls,
        path: str | Path,
        manifest: Mapping[str, Any],
        *,
        inputs: Mapping[str, str],
        moved: Mapping[str, Any] = MappingProxyType({}),
        retry_failed: bool = False,
        force: bool = False,
    ) -> RunFolder:
        """Go on with a run that was stopped: mend its output, and begin another attempt.

        Parameters
        ----------
        manifest, inputs
            As those it was begun with.
        moved
            Values of the manifest that are other ones from now on, once all is checked.
        retry_failed
            Also run again the requests that failed and would fail again.
        force
            Take a manifest that differs; answers of both settings are then in one output.

        Raises
        ------
        InputError
            When no run was begun in the folder or another process is at work on it; when manifest
            or inputs differ, a line for each value or custom_id; when the output is of other
            requests or cannot be read.
        """
        path = Path(path)
        begun = read_manifest(path)
        with folder_files.locked(path) as lock:
            if not force:
                check_manifest(path, begun, manifest)
            check_inputs(path, inputs)
            folder_files.remove_temporary(path)
            output = path / folder_files.OUTPUT
            scan = Scan()
            if output.exists():
                scan = scan_output(output, inputs)
                repair_output(output, scan)
            kept = {**(manifest if force else begun), **moved}
            if kept != begun:
                write_manifest(path, kept, begun["plan"])
            return cls(path, lock, inputs, scan, retry=retry_failed)

    @property
    def output(self) -> Path:
        """The output file."""
        return self.path / folder_files.OUTPUT

    @property
    def plan(self) -> Path:
        """The copy of the plan."""
        return self.path / str(self.manifest["plan"])

    @property
    def status(self) -> Mapping[str, Status]:
        """What is done, by ``custom_id``: answered, or failed and kept. Others are to run."""
        return MappingProxyType(self._status)

    @property
    def counts(self) -> Counts:
        """How many are answered, failed and not run, by what stands in the output. O(1)."""
        answered, errors = len(self._ledger.answered), len(self._ledger.errors)
        return Counts(
            answered=answered,
            failed=errors + len(self._ledger.unread),
            not_run=len(self._inputs) - answered - errors,
        )

    def append(self, line: Mapping[str, Any]) -> None:
        """Append a line to the output; once this returns, no end of the process can lose it.

        Records of input lines that are no requests are to be appended at every start: one that
        stands already is not written again.

        Raises
        ------
        StorageError
            When it cannot be written. Nothing written before is harmed and nothing of it is left
            behind; it may be tried again.
        ValueError
            For a line that resume could not read, of a request that is not among the inputs or is
            done already.
        """
        data = json_line(line)
        entry = self._entry(data)
        if entry.input_line is not None:
            self._unread_now.add(entry.input_line)
            if entry.input_line in self._ledger.unread:
                return
        self._ledger.enter(entry, self._output.append(data))
        if entry.custom_id is not None and entry.status is not Status.BROKEN:
            self._status[entry.custom_id] = entry.status

    def finish(self) -> Counts:
        """Leave one line for each request, and say what became of all; nothing is appended after.

        The output is written anew only where a line was superseded or could not be read.

        Raises
        ------
        StorageError
            When that fails; the output is then as it was, and resuming tries it again.
        """
        self._output.close()
        ledger = self._ledger
        if self._unread_now:  # they stand on other lines than at an earlier start
            for line in ledger.unread.keys() - self._unread_now:
                ledger.dropped.add(ledger.unread.pop(line))
        if ledger.dropped:
            try:
                write_whole(self.output, standing_lines(self.output, ledger.dropped))
            except InputError as error:
                raise StorageError(error.faults) from None
            sync_folder(self.path)
            ledger.dropped.clear()
        return self.counts

    def take_back(self, *, keep_log: bool) -> None:
        """Undo a start of which nothing came: a run that it began is none, another is as it was.

        ``keep_log`` leaves what the engine printed, which says why.
        """
        self._output.close()
        folder_files.remove_attempt(self.attempt, keep_log=keep_log)
        if self._made is not None:
            folder_files.remove_run(self.path, self._made)

    def close(self) -> None:
        """Force the output to the disk and release the lock; a second call does nothing.

        Raises
        ------
        StorageError
            When the disk does not take it.
        """
        try:
            self._output.close()
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _entry(self, data: bytes) -> OutputLine:
        """Read a line back as resume will: what it could not read must not be written."""
        try:
            entry = read_line(data)
        except BadLine as error:
            raise ValueError(f"not a line of an output file: {error}") from None
        name = entry.custom_id
        if name is not None and name not in self._inputs:
            raise ValueError(f"custom_id {shown(name)} is not among the inputs")
        if name is not None and name in self._status:
            raise ValueError(f"custom_id {shown(name)} is {self._status[name]} already")
        return entry

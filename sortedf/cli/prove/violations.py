"""What becomes of a claim that does not hold: files of its instances, lines on stderr, exit 6."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from sortedf.proofs_check.finding import Finding

VIOLATED = 6


def end(findings: Sequence[Finding], folder: str | None) -> None:
    """End the command with ``VIOLATED`` if a claim does not hold; else do nothing.

    The first instances of each claim are written into the folder, if there is one, each a backlog
    whose name has the claim and the KV budget: ``sorted-f-48-0-M12.csv``.

    Raises
    ------
    InputError
        When a file cannot be written.
    """
    from sortedf.instances import write_backlog
    from sortedf.proofs_check.finding import SHOWN

    failed = [finding for finding in findings if not finding.holds]
    if not failed:
        return
    for finding in failed:
        words = f"{finding.claim} {'' if finding.against == 'optimum' else finding.against}"
        name = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
        for number, instance in enumerate(finding.violations[:SHOWN]):
            where = f"{len(instance)} requests"
            if folder is not None:
                where = str(Path(folder) / f"{name}-{number}-M{instance.kv_tokens}.csv")
                write_backlog(instance, where)
            typer.echo(
                f"{finding.claim} does not hold: {where}, --kv-tokens {instance.kv_tokens}",
                err=True,
            )
        count = len(finding.violations)
        if count > SHOWN:
            typer.echo(f"{finding.claim}: {count} violations in all", err=True)
    raise typer.Exit(VIOLATED)

"""Backlogs, plans and certificates in files: readers, writers; generators, a packaged example."""

from sortedf.instances.certificates import (
    is_certificate,
    new_certificate,
    read_certificate,
    write_certificate,
)
from sortedf.instances.generators import example, generate
from sortedf.instances.plan import Plan, is_plan, read_plan
from sortedf.instances.plan_writing import write_plan
from sortedf.instances.read import read_backlog
from sortedf.instances.source import Source, open_source
from sortedf.instances.write import write_backlog

__all__ = [
    "Plan",
    "Source",
    "example",
    "generate",
    "is_certificate",
    "is_plan",
    "new_certificate",
    "open_source",
    "read_backlog",
    "read_certificate",
    "read_plan",
    "write_backlog",
    "write_certificate",
    "write_plan",
]

"""Backlogs and plans in files: readers, writers, generators, and a small packaged example."""

from sortedf.instances.generators import example, generate
from sortedf.instances.plan import Plan, is_plan, read_plan, write_plan
from sortedf.instances.read import read_backlog
from sortedf.instances.source import Source, open_source
from sortedf.instances.write import write_backlog

__all__ = [
    "Plan",
    "Source",
    "example",
    "generate",
    "is_plan",
    "open_source",
    "read_backlog",
    "read_plan",
    "write_backlog",
    "write_plan",
]

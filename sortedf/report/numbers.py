"""Numbers as a person reads them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any


def compact(value: float) -> str:
    """Write a number on an axis: with separators up to 999,999, above in M, G, T."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def rounded_down(value: float) -> str:
    """Write with one decimal, never more than the value: for what is proved to be below."""
    return f"{Decimal(value).quantize(Decimal('0.1'), rounding=ROUND_FLOOR):,}"


def rounded_up(value: float) -> str:
    """Write with five digits, never less than the value."""
    return f"{Context(prec=5, rounding=ROUND_CEILING).create_decimal(value).normalize():,f}"


def short_fraction(text: str) -> str:
    """Shorten a fraction that has too many digits to be read; the JSON has it exactly."""
    return text if len(text) <= 36 else f"{text[:16]}...{text[-16:]}"


FORMATS: dict[str, Callable[[Any], str]] = {
    "integer": lambda value: f"{value:,}",
    "decimal": lambda value: f"{value:,.1f}",
    "percent": lambda value: f"{value:,.2%}",
    "down": rounded_down,
    "up": rounded_up,
    "yes": lambda value: "yes" if value else "no",
    "text": str,
}
"""How to write a value; every form of the report writes it the same way."""


def shown(value: Any, form: str) -> str:
    """Write a value; nothing for ``None``."""
    return "" if value is None else FORMATS[form](value)


PLAN_COLUMNS = (
    ("plan", "name", "text"),
    ("mean", "mean_latency", "decimal"),
    ("p50", "p50_latency", "integer"),
    ("p95", "p95_latency", "integer"),
    ("p99", "p99_latency", "integer"),
    ("makespan", "makespan", "integer"),
    ("total latency", "total_latency", "integer"),
    ("lower bound", "lower_bound", "integer"),
    ("gap", "gap", "percent"),
    ("memory in use", "mean_kv_use", "percent"),
    ("verified", "verified", "yes"),
)
"""Heading, key in a row of the document, and form of each column of the table of plans."""

EXTRA_COLUMNS = (
    ("extra tokens", "extra_tokens", "integer"),
    ("KV budget", "kv_tokens", "integer"),
    ("no schedule below, same prices", "floor", "integer"),
    ("no schedule below, own bound", "direct", "integer"),
    ("saves at most", "saved_at_most", "integer"),
    ("reached by {order}", "order_latency", "integer"),
    ("checked", "holds", "yes"),
)
"""The same for the table of more memory; total latencies in steps."""

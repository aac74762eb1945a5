"""What each picture of a report shows, in words, for those who do not see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Document = Mapping[str, Any]


def lengths(document: Document) -> str:
    """Describe the spread of prompt and output tokens."""
    parts = []
    for key, text in (("prompt_tokens", "Prompts"), ("output_tokens", "Outputs")):
        s = document["backlog"][key]
        parts.append(
            f"{text} have {s['least']:,} to {s['most']:,} tokens, half of them at most "
            f"{s['p50']:,}, 95 of 100 at most {s['p95']:,}."
        )
    return " ".join(parts)


def curves(document: Document) -> str:
    """Describe when half and all of the requests are finished, plan by plan."""
    parts = []
    for plan in document["pictures"]["curves"]["plans"]:
        row = document["rows"][plan["row"]]
        half = next(
            step
            for step, finished in zip(plan["steps"], plan["finished"], strict=True)
            if 2 * finished >= row["n"]
        )
        parts.append(
            f"{row['name']}: half of the requests by about step {half:,}, "
            f"all by step {row['makespan']:,}."
        )
    return " ".join(parts)


def memory(document: Document, place: int) -> str:
    """Describe how full the memory is."""
    plan = document["pictures"]["memory"]["plans"][place]
    row = document["rows"][plan["row"]]
    budget = document["pictures"]["memory"]["budget"]
    if "worker" in plan:
        return (
            f"{row['name']}, worker {plan['worker']}: holds at most {max(plan['peak']):,} of "
            f"{plan['budget']:,} tokens."
        )
    return (
        f"{row['name']} holds {row['mean_kv_use']:.1%} of the budget on average over "
        f"{row['makespan']:,} steps, at most {row['peak_kv_tokens']:,} of {budget:,} tokens."
    )


def window(drawn: Mapping[str, Any]) -> str:
    """Describe one window of a packing picture."""
    n, group = drawn["requests"], drawn["group"]
    steps = f"Steps {drawn['first']:,} to {drawn['last']:,}"
    what = "1 request" if n == 1 else f"{n:,} requests"
    if group == 1:
        return f"{steps}: {what}, each a shape."
    return f"{steps}: {what}, each shape {group:,} of them that complete one after the other."


def packing(document: Document, place: int) -> str:
    """Describe the windows of a packing picture."""
    drawn = document["pictures"]["packing"][place]
    return " ".join(map(window, drawn["windows"]))


def prices(document: Document) -> str:
    """Describe when memory is scarce."""
    drawn = document["pictures"]["prices"]
    if not drawn["half_by"]:
        return "All prices are 0: memory is never scarce."
    return (
        f"Half of all that memory is worth falls by step {drawn['half_by']:,}, nine tenths by step "
        f"{drawn['nine_tenths_by']:,}; after step {document['bound']['horizon']:,} it is worth "
        f"nothing. The highest mean of a bin is {max(drawn['mean']):,.3g} steps of latency a step."
    )


def extra_memory(document: Document) -> str:
    """Describe bounds and the order on larger budgets."""
    n = document["backlog"]["n"]
    extra = document["extra_memory"]
    parts = [
        f"With {extra['kv_tokens']:,} tokens no schedule has a mean latency below "
        f"{document['bound']['mean']:,.1f} steps; {extra['order']} reaches "
        f"{extra['order_latency'] / n:,.1f}."
    ]
    parts += [
        f"With {row['kv_tokens']:,}: not below {row['least'] / n:,.1f}, {extra['order']} "
        f"{row['order_latency'] / n:,.1f}."
        for row in extra["rows"]
    ]
    return " ".join(parts)

"""A trained predictor's errors as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from sortedf.report.tables import facts


def trial(document: Mapping[str, Any]) -> Table:
    """Show how far predictions are off, from the document of ``sortedf learn --json``."""
    errors, overhead = document["errors"], document["overhead"]
    mean, median = document["constant"]
    rank = errors["rank_correlation"]
    bit = document["proxies"]
    pairs = [
        ("learnt from", f"{document['learnt']:,} requests: {', '.join(document['traits'])}"),
        ("tried on the later", f"{errors['n']:,} requests"),
        ("median relative error", f"{errors['median_relative']:.1%}"),
        ("mean relative error", f"{errors['mean_relative']:.1%}"),
        ("  of the same guess for all", f"{median:.1%} and {mean:.1%}"),
        ("mean error", f"{errors['mean_absolute']:,.1f} tokens"),
        ("rank correlation", "all equal" if rank is None else f"{rank:.2f}"),
        (f"in the {document['coverage']:.0%} interval", f"{errors['coverage']:.1%}"),
        (
            "  median width",
            f"{errors['width']:,.0f} tokens, {errors['relative_width']:.0%} of the prediction",
        ),
        ("short or long right", f"{errors['bit_accuracy']:.1%}"),
        ("  of the same guess for all", f"{errors['bit_guess']:.1%}"),
        (
            "  up to, taken as",
            f"{bit['threshold']:,.0f}: {bit['short']:,.0f} or {bit['long']:,.0f}",
        ),
        ("learning", f"{overhead['learning']:.2f} s"),
        (
            "predicting a request",
            f"{1e6 * overhead['together']:,.0f} us among many, "
            f"{1e6 * overhead['alone']:,.0f} us alone",
        ),
    ]
    return facts(f"output lengths learnt from {document['history']}", pairs)

"""Policies by what is left of an output, which evict for it: SRPT, repaired, LTR, TRAIL.

LTR and TRAIL as arXiv 2606.18431 compares with them.
"""

from __future__ import annotations

import numpy as np

from sortedf.kernels.standing import FIXED, REMAINING, Scoring
from sortedf.serving.online_policy import OnlinePolicy, predicted
from sortedf.serving.side import WATERMARK, EngineSide


def srpt() -> OnlinePolicy:
    """Least predicted remaining output first; evicts running requests, which recompute.

    The key does not count what is to be computed again. A request that outlives its prediction has
    nothing left and goes first.
    """
    return OnlinePolicy(
        name="srpt",
        side=EngineSide(displaces=True),
        key=predicted,
        scoring=Scoring(kind=REMAINING),
    )


def srpt_repaired(*, weight: float = 0.5) -> OnlinePolicy:
    """SRPT whose key counts the known tokens not in cache, by ``weight``; with a watermark.

    Derived for this project.
    """
    return OnlinePolicy(
        name="srpt-repaired",
        side=EngineSide(displaces=True, watermark=WATERMARK),
        key=predicted,
        scoring=Scoring(kind=REMAINING, weight=weight),
        parameters={"weight": weight},
    )


def ltr(*, patience: float = 30.0, quantum: int = 32) -> OnlinePolicy:
    """Least predicted output first, running requests included; who starves is promoted (LTR).

    After ``patience`` seconds of waiting a request goes before all that are not promoted, for
    ``quantum`` output tokens in which nobody evicts it for its rank.
    """
    return OnlinePolicy(
        name="ltr",
        side=EngineSide(displaces=True),
        key=predicted,
        scoring=Scoring(kind=FIXED, quantum=quantum),
        patience=lambda given: np.full(len(given.workload), patience),
        parameters={"patience": patience, "quantum": quantum},
    )


def trail(*, share: float = 0.8) -> OnlinePolicy:
    """SRPT that does not evict after a share C of the predicted output (TRAIL)."""
    return OnlinePolicy(
        name="trail",
        side=EngineSide(displaces=True),
        key=predicted,
        scoring=Scoring(kind=REMAINING, share=share),
        parameters={"share": share},
    )

"""SVF whose waiting is bounded: by what first come would have let anybody wait so far.

Derived for this project. Whoever goes by size makes the large wait, whoever goes by arrival makes
all wait. Here the small go first until a request has waited for as long as first come would have
let it or anybody before it wait; from then on it goes before all that have not. So the tail is near
that of first come, and the mean near that of SVF.
"""

from __future__ import annotations

import numpy as np

from sortedf.engine.replaying import Replay
from sortedf.engine.settings import Policy
from sortedf.kernels.standing import FIXED, Scoring
from sortedf.serving.online_policy import BoolArray, FloatArray, Given, OnlinePolicy
from sortedf.serving.side import EngineSide

SHADOW_WATERMARK = 0.01
LEAST_PATIENCE = 1.0
"""Seconds, before first come would have let anybody wait."""

_FOREVER = 2**40  # output tokens: promoted until the end
_FIRST = 50  # requests before a quantile is taken
_GROWTH = 1.1  # by which their number has grown when it is taken anew


def svf_aged(*, share: float = 0.95, exempt: float = 0.009) -> OnlinePolicy:
    """Least seconds of cache and compute first, until a request has waited for long enough.

    That is ``share`` of the longest wait so far under first come, replayed beside on the
    predictions (:func:`first_come_waits`). The ``exempt`` share of the largest requests is not
    promoted: they wait until there is room, as under SVF. With 0 all are.
    """

    def patience(given: Given) -> FloatArray:
        longest = np.maximum.accumulate(first_come_waits(given))
        seconds = share * np.maximum(longest, LEAST_PATIENCE)
        return np.where(among_largest(given.seconds, exempt), np.inf, seconds)

    return OnlinePolicy(
        name="svf-aged",
        side=EngineSide(future=True, lookahead=4),
        key=lambda given: given.seconds,
        patience=patience,
        scoring=Scoring(kind=FIXED, quantum=_FOREVER),
        parameters={"share": share, "exempt": exempt},
    )


def first_come_waits(given: Given) -> FloatArray:
    """Seconds from arrival to admission if all came first come, first served; shape (n,).

    The engine replayed on predicted outputs, with a small watermark. Nothing that comes after a
    request changes when first come admits it, so that each wait can be known at the arrival.
    """
    engine = given.settings.replace(policy=Policy.FCFS, watermark=SHADOW_WATERMARK, lookahead=1)
    instance, arrivals = given.workload.instance, given.workload.arrivals
    room = np.maximum(engine.kv_tokens - instance.prompt_tokens, 1)
    foreseen = instance.replace(output_tokens=np.minimum(given.known.tokens, room))
    found = Replay(foreseen, engine, arrivals=arrivals).run(given.step_time)
    waits: FloatArray = found.admitted - arrivals
    return waits


def among_largest(size: FloatArray, share: float) -> BoolArray:
    """Whether each is above the quantile 1 - ``share`` of those that came before it, shape (n,).

    The quantile is taken anew when there are a tenth more; of the first 50 nobody is among them.
    O(n log n).
    """
    large = np.zeros(len(size), np.bool_)
    begin = _FIRST
    while begin < len(size) and share > 0:
        end = int(begin * _GROWTH)
        large[begin:end] = size[begin:end] > np.quantile(size[:begin], 1 - share)
        begin = end
    return large

"""Our rule: capacity has a price, and who is not worth it gives way."""

from __future__ import annotations

from collections import deque

import numpy as np

from sortedf.errors import OptionError
from sortedf.kernels.route_prices import lower_dual
from sortedf.routing.fleet import HELD, Arriving, Fleet, FloatArray
from sortedf.routing.work import share_seconds

SWEEPS = 4


class Priced:
    """Send to where utility less the price of the work is greatest, among those in time.

    Of the requests of late, what would have been the best assignment to the instances' seconds? The
    dual prices of that linear program say what a second of each instance is worth to others. Under
    a light load they are 0, and this is the published rule. Above capacity a request is worth its
    place only where its utility exceeds what its work costs: requests of much work and little
    utility are held back, and all others find instances that are not full to the brim. Derived for
    this project.

    Parameters
    ----------
    share
        Of an instance's seconds, that requests are to take: a cache is never quite full.
    margin
        Of the limit, within which the estimate must be.
    window
        Requests of late that prices come from.
    every
        Requests after which prices are found anew.

    Raises
    ------
    OptionError
        For an option out of range.
    """

    conditional = True

    def __init__(
        self, share: float = 0.9, margin: float = 1.0, window: int = 256, every: int = 8
    ) -> None:
        if not share > 0 or not margin > 0 or window < 2 or every < 1:
            raise OptionError("share and margin are above 0, window at least 2, every at least 1")
        self.share, self.margin, self.every = share, margin, every
        self.prices: FloatArray = np.zeros(0)
        self._recent: deque[tuple[float, FloatArray, FloatArray]] = deque(maxlen=window)
        self._count = 0

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the instance of the greatest gain, or HELD where there is none in time."""
        work = np.array(
            [
                float(
                    share_seconds(one, request.prompt_tokens, round(request.predicted[place]) or 1)
                )
                for place, one in enumerate(fleet.instances)
            ]
        )
        self._note(request, work)
        gain = request.utility - self.prices * work
        in_time = fleet.ttft(request) <= request.limit * self.margin
        gain = np.where(in_time, gain, -np.inf)
        place = int(np.argmax(gain))
        return place if gain[place] > 0 else HELD

    def _note(self, request: Arriving, work: FloatArray) -> None:
        if not len(self.prices):
            self.prices = np.zeros(len(work))
        self._recent.append((request.arrival, request.utility, work))
        self._count += 1
        # Fewer say little of the rate at which requests come.
        if self._count % self.every or len(self._recent) < 64:
            return
        span = self._recent[-1][0] - self._recent[0][0]
        lower_dual(
            np.array([utility for _, utility, _ in self._recent]),
            np.array([seconds for _, _, seconds in self._recent]),
            np.full(len(work), self.share * span),
            self.prices,
            SWEEPS,
        )

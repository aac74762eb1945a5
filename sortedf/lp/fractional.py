"""Fractional starts: how much of each request starts when, and the orders that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortedf.errors import OptionError
from sortedf.kernels.price_ascent import FloatArray
from sortedf.lp.distinct import Distinct
from sortedf.model.instance import IntArray

LEAST_SHARE = 1e-7
"""Shares below this are the noise of a solver."""


@dataclass(frozen=True)
class FractionalStarts:
    """Shares of requests by start, ascending by request and then start; shape (k,) each.

    Parameters
    ----------
    request
        Position in the instance; each of its n requests appears.
    start
        Step.
    share
        How much of the request starts there, above 0; 1 in all for each request, up to rounding.
    """

    request: IntArray
    start: IntArray
    share: FloatArray

    def means(self) -> FloatArray:
        """Take the expected start of each request, shape (n,) (steps)."""
        weighed = np.bincount(self.request, self.share * self.start)
        return weighed / np.bincount(self.request, self.share)

    def points(self, alpha: float) -> IntArray:
        """Find the first step by which a share ``alpha`` of each request has started, shape (n,).

        The alpha-points of scheduling by relaxations; 0.5 gives the half-points.

        Raises
        ------
        OptionError
            If ``alpha`` is not a number above 0 and at most 1.
        """
        check_alpha(alpha)
        first = np.flatnonzero(np.diff(self.request, prepend=-1))
        before = np.append(0.0, np.cumsum(self.share))
        totals = np.add.reduceat(self.share, first)
        # Counted from the end, so that rounding never leads into the next request.
        started = before[1:] - before[first][self.request]
        enough = started >= (alpha - LEAST_SHARE) * totals[self.request]
        found = np.where(enough, np.arange(len(enough)), len(enough))
        points: IntArray = self.start[np.minimum.reduceat(found, first)]
        return points


def check_alpha(alpha: float) -> None:
    """Refuse what is no number above 0 and at most 1, as an :class:`OptionError`."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha <= 1:
        raise OptionError(f"alpha is {alpha!r}; it must be a number above 0 and at most 1")


def split(kinds: Distinct, kind: IntArray, start: IntArray, share: FloatArray) -> FractionalStarts:
    """Give each request of a kind its part of the kind's shares: the earliest to the first.

    ``kind, start, share`` (k,) ascend by kind and then start; the shares of a kind are scaled so
    that they add up to its number of requests. What is earliest goes to the first request, until
    that is whole, and so on: any other way would be as good a solution of the relaxation.
    """
    kept = share > LEAST_SHARE
    kind, start, share = kind[kept], start[kept], share[kept]
    totals = np.bincount(kind, share)
    share = share * (kinds.weight / totals)[kind]
    # All requests on one line of length n, one after the other, and the shares on it.
    n = int(kinds.weight.sum())
    ends = np.cumsum(share)
    ends[-1] = n
    cuts = np.unique(np.concatenate([[0.0], ends, np.arange(1.0, n + 1)]))
    # Rounding leaves slivers beside the whole numbers.
    wide = np.diff(cuts) > LEAST_SHARE
    middles = ((cuts[:-1] + cuts[1:]) / 2)[wide]
    place = np.floor(middles).astype(np.int64)
    by_kind = np.argsort(kinds.kind, kind="stable")
    request = by_kind[place]
    step = start[np.searchsorted(ends, middles)]
    order = np.lexsort((step, request))
    return FractionalStarts(request[order], step[order], np.diff(cuts)[wide][order])

"""No routing can do better: an upper bound on utility in time, by linear programming."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.errors import OptionError, SortedfError
from sortedf.kernels.step_terms import CHUNK_SQUARED, DECODE_TOKENS, PREFILL_TOKENS, STEPS
from sortedf.routing.instances import EngineInstance
from sortedf.routing.work import least_work
from sortedf.routing.workload import RoutedWorkload, utilities

if TYPE_CHECKING:
    from scipy import sparse

FloatArray: TypeAlias = npt.NDArray[np.float64]

WINDOW = 2.0
_DOUBLINGS = 5


class OfflineBound(NamedTuple):
    """An upper bound on the mean utility in time, and up to when answers must be complete for it.

    ``capacity_prices`` are the utility (of all requests) that a second more of each instance would
    bring, shape (R,).
    """

    value: float
    horizon: float
    capacity_prices: FloatArray


def offline_bound(
    workload: RoutedWorkload,
    instances: Sequence[EngineInstance],
    horizon: float,
    *,
    weight: float = 5e-4,
    window: float = WINDOW,
) -> OfflineBound:
    """Bound the mean utility in time of every routing whose answers in time end by ``horizon``.

    Parameters
    ----------
    horizon
        Seconds on the clock of the arrivals. For a routing that was carried out: the last token of
        those that it answered in time. Not before the last arrival.
    weight
        Of cost in utility.
    window
        Seconds of the narrowest windows of time that are looked at.

    Raises
    ------
    OptionError
        For a horizon before the last arrival, or a window that is no length of time.

    Notes
    -----
    Let x_ij be 1 if request j has its first token in time on instance i, and is complete there by
    the horizon H; 0 otherwise. The sum over i of x_ij is at most 1, and the utility in time is the
    sum of U_ij x_ij. Any routing, with any order, held requests and any knowledge of the future,
    satisfies for every instance i:

    1. *Too long a prompt.* x_ij = 0 if the prompt takes longer than the limit on an empty engine.
       In K steps it takes at least K c0 + c1 s + c2 (s - K)^2 / K seconds, c1 the lesser of a
       prefill and a decode token's: chunks of one token count as decodes, the others, at most K of
       them, have at least s - K tokens in all, whose squares sum to least when all are equal.
    2. *Windows.* A step with tokens of j's prompt is begun after j has come, and ends by its
       deadline, if x_ij = 1. Steps of an instance do not overlap, and one is longer by c1 s' for s'
       prompt tokens in it. So for any t1 < t2 the sum of c1 s_j x_ij over the requests that come
       from t1 on and have their deadline by t2 is at most t2 - t1.
    3. *All steps.* Let N be the number of steps in which the requests with x_ij = 1 take part. Each
       takes part in at least o_j of them (a prompt again after a preemption only adds to that), at
       most as many as there are seats at once, and holds at least s + 1 .. s + o - 1 tokens in its
       decodes, at most M at once. So N seats >= sum o_j x_ij and N M >= sum of token-steps x_ij.
       All these steps lie between the first arrival and H, and one takes c0 and what its tokens
       cost; so c0 N + sum (prefill + decode seconds)_ij x_ij <= H - first arrival.

    So x is a solution of the linear program with these constraints and 0 <= x <= 1, whose value is
    no less. Late requests are taken to cost nothing. The value is that of a dual solution, repaired
    to be feasible, so that it holds whatever the solver's tolerances are. Derived for this project.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    n, width = workload.output_tokens.shape
    if not window > 0:
        raise OptionError(f"window is {window!r}; give seconds above 0")
    if n and not horizon >= workload.arrivals[-1]:
        raise OptionError(f"horizon is {horizon!r}; it must not be before the last arrival")
    utility = np.maximum(utilities(workload, instances, weight), 0.0)
    rows: list[sparse.csr_matrix] = []
    limits: list[FloatArray] = []
    # Columns: x_1., x_2., ..., x_R. (n each), then N_1 .. N_R.
    once = sparse.hstack([sparse.identity(n)] * width + [sparse.csr_matrix((n, width))])
    rows.append(once.tocsr())
    limits.append(np.ones(n))
    capacity_rows = []
    for place, one in enumerate(instances):
        outputs = workload.output_tokens[:, place]
        work = least_work(one, workload.prompt_tokens, outputs)
        utility[_alone(one, workload.prompt_tokens) > workload.limit, place] = 0.0
        seen, spans = _windows(workload, work.prefill, window)
        blank = sparse.csr_matrix((seen.shape[0], n))
        parts = [seen if k == place else blank for k in range(width)]
        rows.append(sparse.hstack([*parts, sparse.csr_matrix((seen.shape[0], width))]).tocsr())
        limits.append(spans)
        settings, fixed = one.settings, float(one.step_time.seconds[STEPS])
        whole = np.zeros((3, (n + 1) * width))
        mine = slice(place * n, (place + 1) * n)
        whole[0, mine], whole[0, n * width + place] = work.steps / settings.max_num_seqs, -1
        whole[1, mine], whole[1, n * width + place] = work.token_steps / settings.kv_tokens, -1
        whole[2, mine], whole[2, n * width + place] = work.prefill + work.decode, fixed
        capacity_rows.append(sum(len(limit) for limit in limits) + 2)
        rows.append(sparse.csr_matrix(whole))
        limits.append(np.array([0.0, 0.0, horizon - workload.arrivals[0] if n else 0.0]))
    matrix, right = sparse.vstack(rows).tocsr(), np.concatenate(limits)
    gain = np.concatenate([utility.T.ravel(), np.zeros(width)])
    solved = linprog(-gain, A_ub=matrix, b_ub=right, bounds=(0, None), method="highs")
    if solved.status != 0:
        raise SortedfError(f"the bound's linear program was not solved: {solved.message}")
    prices = np.maximum(-solved.ineqlin.marginals, 0.0)
    return OfflineBound(
        value=_dual_value(gain, matrix, right, prices, n, width) / max(n, 1),
        horizon=horizon,
        capacity_prices=prices[capacity_rows],
    )


def _dual_value(
    gain: FloatArray,
    matrix: sparse.csr_matrix,
    right: FloatArray,
    prices: FloatArray,
    n: int,
    width: int,
) -> float:
    """Value of a dual solution that is feasible: of prices >= 0, raised where they are too low.

    The price of the row "at most once" of a request takes up what is left of its gains. A column N
    must not cost less than it brings: the price of the row of all steps is raised until it does
    not.
    """
    prices = prices.copy()
    left = gain - matrix.T @ prices
    for place in range(width):
        column = matrix[:, n * width + place].toarray().ravel()
        positive = np.flatnonzero(column > 0)
        if left[n * width + place] > 0 and len(positive):
            prices[positive[-1]] += left[n * width + place] / column[positive[-1]]
    left = gain - matrix.T @ prices
    short = left[: n * width].reshape(width, n).max(axis=0, initial=0.0)
    prices[:n] += np.maximum(short, 0.0)
    return float(right @ prices)


def _alone(instance: EngineInstance, prompt_tokens: npt.ArrayLike) -> FloatArray:
    """Least seconds of a prompt, however it is cut into steps."""
    seconds, s = instance.step_time.seconds, np.asarray(prompt_tokens, np.float64)
    token = min(seconds[PREFILL_TOKENS], seconds[DECODE_TOKENS])
    best: FloatArray = np.full(len(s), np.inf)
    steps = 1
    while True:
        fixed = steps * seconds[STEPS]
        squares = np.maximum(s - steps, 0.0) ** 2 / steps
        best = np.minimum(best, fixed + s * token + seconds[CHUNK_SQUARED] * squares)
        # From here on the fixed part alone is more, or there is nothing left to cut.
        if (fixed + s * token >= best).all() or steps > s.max(initial=0):
            return best
        steps += 1


def _windows(
    workload: RoutedWorkload, prefill: FloatArray, window: float
) -> tuple[sparse.csr_matrix, FloatArray]:
    """Rows of the windows of time and their lengths; widths double, starts are half a one apart."""
    from scipy import sparse

    arrivals, deadlines = workload.arrivals, workload.arrivals + workload.limit
    matrices, spans = [], []
    first, last = (arrivals[0], deadlines.max()) if len(arrivals) else (0.0, 0.0)
    for doubling in range(_DOUBLINGS):
        length = window * 2**doubling
        for start in np.arange(first, last, length / 2):
            inside = (arrivals >= start) & (deadlines <= start + length)
            if inside.any():
                matrices.append(sparse.csr_matrix(np.where(inside, prefill, 0.0)))
                spans.append(length)
    if not matrices:
        return sparse.csr_matrix((0, len(arrivals))), np.zeros(0)
    return sparse.vstack(matrices).tocsr(), np.array(spans)

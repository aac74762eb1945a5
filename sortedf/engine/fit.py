"""Coefficients of a step-time form that bring a replay nearest to known times.

The error of a replay jumps where another coefficient lets a request into an earlier step, and has
local minima. So: a coarse grid of crude starts, the simplex search of Nelder and Mead (Computer
Journal 7, 1965) over the logarithms of the coefficients from the best of them, and again, smaller,
from the best of what that found. Derived for this project.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.step_time import StepTimeModel, form_names

FloatArray: TypeAlias = npt.NDArray[np.float64]
Objective: TypeAlias = Callable[[StepTimeModel], float]
"""Seconds of error of a model; what is minimised."""

STARTS: Mapping[str, tuple[float, ...]] = {
    "fixed": (3e-3, 1e-2, 3e-2),
    "token": (2e-5, 1e-4, 5e-4),
    "prefill_token": (2e-5, 1e-4, 5e-4),
    "decode_token": (1e-5,),
    "context": (1e-8, 1e-7, 1e-6),
    "prefill_work": (1e-9,),
    "chunk_squared": (1e-9,),
    "context_squared": (1e-12,),
}
"""Crude and fixed: values of each coefficient, in seconds, that every search starts from."""

MIDDLE = {name: values[len(values) // 2] for name, values in STARTS.items()}

WORTH = 0.05
"""Differences below this share of the error are taken for noise. So a richer form must be better by
it, and a coefficient that is a factor of ten from the middle of its starts adds it to the error:
that decides only what the times leave open, as between a fixed cost and a context that hardly
changes."""

STARTED, STARTED_BESIDE = 5, 2
AGAIN = 2
EVALUATIONS = 120
FIRST_SIZE, SIZES = 0.4, (0.15, 0.05)


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What a search came to.

    Parameters
    ----------
    form
        Name of the form.
    model
        The best coefficients.
    error
        Their training error in seconds.
    score
        The error with the pull towards the middle; the least one is chosen.
    minima
        Scores that the searches from the single starts ended in, ascending.
    evaluations
        Replays that it took.
    near
        All models that were tried whose score is within 5 % of the least one, with their scores.
    """

    form: str
    model: StepTimeModel
    error: float
    score: float
    minima: tuple[float, ...]
    evaluations: int
    near: tuple[tuple[float, StepTimeModel], ...] = ()


class Search:
    """One search: its objective over logarithms, and the best point so far."""

    def __init__(self, form: str, objective: Objective) -> None:
        self.form = form
        self.names = form_names(form)
        self.objective = objective
        self.evaluations = 0
        self.tried: list[tuple[float, FloatArray]] = []
        self._middle = np.log([MIDDLE[name] for name in self.names])

    def score(self, point: FloatArray) -> float:
        """Error at the logarithms of coefficients, with the pull."""
        self.evaluations += 1
        decades = (point - self._middle) / np.log(10.0)
        pull = 1.0 + WORTH * float(decades @ decades)
        score = pull * self.objective(self.model(point))
        self.tried.append((score, point.copy()))
        return score

    def model(self, point: FloatArray) -> StepTimeModel:
        """Build the model of a point."""
        return StepTimeModel.of_form(self.form, np.exp(point).tolist())

    def point(self, model: StepTimeModel) -> FloatArray:
        """Translate a model of another form: what it lacks begins at the least start."""
        values = {name: min(STARTS[name]) for name in self.names}
        values |= {name: getattr(model, name) for name in self.names if getattr(model, name) > 0}
        if "token" in values and model.token == 0:
            values["token"] = max(model.prefill_token, values["token"])
        return np.log([values[name] for name in self.names])

    def simplex(self, point: FloatArray, size: float, evaluations: int) -> tuple[float, FloatArray]:
        """Search from one point; the score found and where."""
        from scipy.optimize import minimize

        corners = np.vstack([point, point + size * np.eye(len(point))])
        found = minimize(
            self.score,
            point,
            method="Nelder-Mead",
            options={
                "initial_simplex": corners,
                "maxfev": evaluations,
                "xatol": 1e-5,
                "fatol": 1e-7,
            },
        )
        return float(found.fun), np.asarray(found.x, np.float64)

    def grid(self) -> list[tuple[float, FloatArray]]:
        """Scores of all starts, ascending, with the starts."""
        points = [
            np.log(values) for values in itertools.product(*(STARTS[name] for name in self.names))
        ]
        return sorted(((self.score(x), x) for x in points), key=_by_score)


def fit_form(form: str, objective: Objective, *, begin: StepTimeModel | None = None) -> Fitted:
    """Fit a form.

    Parameters
    ----------
    form
        One of :data:`sortedf.engine.step_time.FORMS`.
    objective
        Error of a model, in seconds.
    begin
        What nearly the same search has found: starts from here, and from fewer others.

    Notes
    -----
    Deterministic. About 1,100 evaluations, 700 with ``begin``.
    """
    search = Search(form, objective)
    starts = search.grid()[: STARTED if begin is None else STARTED_BESIDE]
    if begin is not None:
        point = search.point(begin)
        starts.append((search.score(point), point))
    found = sorted((search.simplex(x, FIRST_SIZE, EVALUATIONS) for _, x in starts), key=_by_score)
    minima = tuple(score for score, _ in found)
    for place in range(AGAIN if begin is None else 1):
        for size in SIZES:
            again = search.simplex(found[place][1], size, EVALUATIONS)
            found[place] = min(found[place], again, key=_by_score)
    score, point = min(found, key=_by_score)
    model = search.model(point)
    return Fitted(
        form=form,
        model=model,
        error=objective(model),
        score=score,
        minima=minima,
        evaluations=search.evaluations,
        near=tuple(
            (worse, search.model(near))
            for worse, near in search.tried
            if worse <= (1 + WORTH) * score
        ),
    )


def apart(form: str, models: Sequence[StepTimeModel], count: int) -> list[StepTimeModel]:
    """Choose models of a form that are as different as can be, the first one included.

    Each next one is the farthest from those chosen, by the logarithms of its coefficients
    (Gonzalez, Theoret. Comput. Sci. 38, 1985). O(models x count).
    """
    points = np.log([[getattr(model, name) for name in form_names(form)] for model in models])
    chosen = [0]
    distance = np.abs(points - points[0]).sum(axis=1)
    while len(chosen) < count and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.abs(points - points[chosen[-1]]).sum(axis=1))
    return [models[k] for k in chosen]


def _by_score(found: tuple[float, FloatArray]) -> float:
    return found[0]

"""Pictures of plans, drawn with matplotlib without a display."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Steps = npt.NDArray[np.int64]


def answers_over_time(completions: Mapping[str, Steps], title: str) -> Figure:
    """Answers returned up to each step, a curve a solver, beside the mean latency of each.

    Parameters
    ----------
    completions
        Completion step of every request (shape (n,), any order), by the solver's name. Every
        request is taken to be released at 0.
    title
        What was planned, and on what budget.
    """
    from matplotlib.figure import Figure

    means = {name: float(steps.mean()) for name, steps in completions.items()}
    names = sorted(means, key=means.__getitem__)
    colors = {name: f"C{i}" for i, name in enumerate(names)}
    figure = Figure(figsize=(10, 4), layout="constrained")
    curves, bars = figure.subplots(1, 2, width_ratios=(3, 2))
    figure.suptitle(title)
    for name in names:
        steps = np.sort(completions[name])
        answered = np.arange(len(steps) + 1)
        curves.step(np.r_[0, steps], answered, where="post", color=colors[name], label=name)
    curves.set(xlabel="step", ylabel="requests answered", xlim=0, ylim=0)
    curves.legend(loc="lower right", frameon=False)
    bars.barh(names[::-1], [means[n] for n in names[::-1]], color=[colors[n] for n in names[::-1]])
    for place, name in enumerate(names[::-1]):
        bars.annotate(
            f"{means[name]:,.0f}",
            (means[name], place),
            (4, 0),
            textcoords="offset points",
            va="center",
        )
    bars.set(xlabel="mean latency (steps)", xlim=(0, 1.15 * max(means.values())))
    for axes in (curves, bars):
        axes.spines[["top", "right"]].set_visible(False)
    return figure

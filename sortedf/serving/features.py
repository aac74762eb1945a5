"""Numbers for a learner out of what is known of requests on arrival."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sortedf.instances.traits import FloatArray, Traits

MOST_KINDS = 200
"""Values of a column that are told apart; the rarer ones count as unknown."""

COUNTS = 5
"""Of characters, words, lines, digits and question marks."""

WORD_BUCKETS = 64
"""Buckets into which the words of a prompt are hashed."""


class Features:
    """Turns traits into a matrix; what it does is settled by the traits that it was made with.

    The columns: prompt tokens; limit; hour; each other column, as a number where all its values are
    numbers, else as the kind of value, of which the most frequent are told apart; of texts the
    characters, words, lines, digits and question marks, and which buckets its words hash to. A
    value that is not known, and a kind not met before, is nan. No language model is asked.

    Parameters
    ----------
    traits
        Of finished requests.

    Attributes
    ----------
    categorical
        For each column of the matrix whether its numbers stand for kinds.
    """

    def __init__(self, traits: Traits) -> None:
        self._like = traits.select(slice(0))
        self._kinds = {name: _kinds(values) for name, values in traits.columns.items()}
        plain = 1 + (traits.limits is not None) + (traits.hours is not None)
        texts = 0 if traits.texts is None else COUNTS + WORD_BUCKETS
        self.categorical = [False] * plain + [bool(kinds) for kinds in self._kinds.values()]
        self.categorical += [False] * texts

    def matrix(self, traits: Traits) -> FloatArray:
        """Give the features of requests, shape (n, features); time linear in all that is read."""
        n = len(traits)
        unknown = np.full(n, np.nan)
        columns = [traits.prompt_tokens.astype(np.float64)]
        for mine, theirs in (
            (self._like.limits, traits.limits),
            (self._like.hours, traits.hours),
        ):
            if mine is not None:
                columns.append(unknown if theirs is None else theirs)
        for name, kinds in self._kinds.items():
            values = traits.columns.get(name, [None] * n)
            if kinds is None:
                columns.append(np.array([_number(value) for value in values], np.float64))
            else:
                numbers = [kinds.get(_kind(value), np.nan) for value in values]
                columns.append(np.array(numbers, np.float64))
        if self._like.texts is not None:
            texts = traits.texts
            shape = n, COUNTS + WORD_BUCKETS
            found = _of_texts(texts) if texts else np.full(shape, np.nan)
            columns += list(found.T)
        matrix: FloatArray = np.column_stack(columns).astype(np.float64)
        # A limit of infinity is no limit, and no number to split by.
        matrix[~np.isfinite(matrix)] = np.nan
        return matrix


def _kinds(values: Sequence[Any]) -> dict[str, int] | None:
    """Give numbers to the most frequent values; ``None`` for a column of numbers."""
    given = [value for value in values if value not in (None, "")]
    if given and not any(math.isnan(_number(value)) for value in given):
        return None
    counts = Counter(map(_kind, given))
    # Ties by the value itself, so that the order of the history does not matter.
    ranked = sorted(counts, key=lambda kind: (-counts[kind], kind))
    return {kind: number for number, kind in enumerate(ranked[:MOST_KINDS])}


def _kind(value: Any) -> str:
    return "" if value is None else str(value)


def _number(value: Any) -> float:
    """Read a finite number; nan for anything else."""
    if isinstance(value, bool):
        return math.nan
    try:
        number = float(value)
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _of_texts(texts: Sequence[str]) -> FloatArray:
    from sklearn.feature_extraction.text import HashingVectorizer

    counted = [
        (
            len(text),
            len(text.split()),
            text.count("\n") + 1,
            sum(map(text.count, "0123456789")),
            text.count("?"),
        )
        for text in texts
    ]
    hashed = HashingVectorizer(
        n_features=WORD_BUCKETS, alternate_sign=False, binary=True, norm=None
    ).transform(texts)
    table = np.array(counted, np.float64).reshape(len(texts), COUNTS)
    stacked: FloatArray = np.hstack([table, hashed.toarray()])
    return stacked

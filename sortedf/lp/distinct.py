"""Requests that are alike, gathered."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sortedf.model import Instance
from sortedf.model.instance import IntArray


class Distinct(NamedTuple):
    """The different (s, o, a) of an instance, ascending by release, volume and output.

    ``weight`` is how many requests are of each kind; ``kind`` (n,) which one each request is of.
    """

    prompt_tokens: IntArray
    output_tokens: IntArray
    release: IntArray
    weight: IntArray
    kind: IntArray


def distinct(instance: Instance) -> Distinct:
    """Gather equal requests; O(n log n)."""
    s, o, a = instance.prompt_tokens, instance.output_tokens, instance.release
    order = np.lexsort((o, instance.volume, a))  # the volume and o tell s
    s, o, a = s[order], o[order], a[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (s[1:] != s[:-1]) | (o[1:] != o[:-1]) | (a[1:] != a[:-1])
    first = np.flatnonzero(new)
    kind = np.empty(len(order), np.int64)
    kind[order] = np.cumsum(new) - 1
    return Distinct(s[first], o[first], a[first], np.diff(np.append(first, len(order))), kind)

"""What is frozen stays frozen on its way to another process."""

from __future__ import annotations

import copy
import pickle

import pytest

from sortedf import Instance, Schedule


def test_an_instance_is_frozen_after_a_pickle() -> None:
    """Equal, of the same hash, and its arrays cannot be written."""
    instance = Instance([3, 4], [5, 6], 20, release=[0, 2], ids=["a", "b"])
    for other in (pickle.loads(pickle.dumps(instance)), copy.deepcopy(instance)):
        assert other == instance
        assert other.sha256 == instance.sha256
        assert other.ids == instance.ids
        with pytest.raises(ValueError, match="read-only"):
            other.prompt_tokens[0] = 9


def test_a_schedule_is_frozen_after_a_pickle() -> None:
    """Equal, and its array cannot be written."""
    schedule = Schedule([0, 7])
    other = pickle.loads(pickle.dumps(schedule))
    assert other == schedule
    with pytest.raises(ValueError, match="read-only"):
        other.starts[0] = 1

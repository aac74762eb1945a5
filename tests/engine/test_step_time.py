"""The step-time model: sums, forms, files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf.engine.step_time import (
    COEFFICIENTS,
    FORMS,
    StepTimeModel,
    design_matrix,
    published,
    read_step_time,
    write_step_time,
)
from sortedf.errors import InputError, OptionError

# fixed, prefill tokens, decodes, context, prefill work, chunks squared, context squared
WORK = [
    [1, 0, 2, 300, 0, 0, 100**2 + 200**2],
    [1, 50 + 7, 1, 40, 50 * 10 + 50 * 51 // 2 + 7 * 8 // 2, 50**2 + 7**2, 40**2],
]
numbers = st.floats(0, 1e-2, allow_subnormal=False)


def model_of(values: Sequence[float], source: str = "") -> StepTimeModel:
    arguments: dict[str, Any] = dict(zip(COEFFICIENTS, values, strict=True))
    return StepTimeModel(**arguments, source=source)


def test_each_coefficient_is_for_what_it_says() -> None:
    """A step of two decodes (contexts 100, 200) and one with chunks, summed by hand."""
    model = model_of(range(1, 9))
    decodes = 1 + 2 * 2 + 4 * 2 + 5 * 300 + 8 * 50_000
    chunks = 1 + 2 * 58 + 3 * 57 + 4 + 5 * 40 + 6 * 1803 + 7 * 2549 + 8 * 1600
    assert model.duration(WORK).tolist() == [decodes, chunks]


@given(st.sampled_from(sorted(FORMS)), st.data())
def test_design_matrix_is_linear_in_the_form(form: str, data: st.DataObject) -> None:
    """Columns times coefficients of a form are the durations of its model."""
    values = data.draw(st.lists(numbers, min_size=len(FORMS[form]), max_size=len(FORMS[form])))
    model = StepTimeModel.of_form(form, values)
    assert np.allclose(design_matrix(form, WORK) @ values, model.duration(WORK))


@given(values=st.lists(numbers, min_size=8, max_size=8).filter(any), source=st.text(max_size=20))
def test_files_give_back_the_model(
    tmp_path_factory: pytest.TempPathFactory, values: list[float], source: str
) -> None:
    """What is written is read, to the bit."""
    path = tmp_path_factory.mktemp("model") / "steptime.json"
    model = model_of(values, source)
    write_step_time(model, path)
    assert read_step_time(path) == model


def test_published_sets_name_their_source() -> None:
    """Three sets of the six-term form, with plausible steps: 64 decodes take 5 to 50 ms."""
    sets = published()
    assert len(sets) == 3
    for model in sets.values():
        assert "2607.18253" in model.source
        assert model.free == tuple(name for name in COEFFICIENTS if name in FORMS["six-term"])
        step = [1, 0, 64, 64_000, 0, 0, 64 * 1000**2]
        assert 0.005 < model.duration([step])[0] < 0.05


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a step-time model"),
        ("[]", "not a step-time model"),
        (
            '{"schema": "sortedf.plan/1", "unit": "seconds", "source": "", "coefficients": {}}',
            "sch",
        ),
        (
            '{"schema": "sortedf.steptime/1", "unit": "ms", "source": "", "coefficients": {}}',
            "unit",
        ),
        (
            '{"schema": "sortedf.steptime/1", "unit": "seconds", "source": "", '
            '"coefficients": {"fixed": 1, "speed": 2}}',
            "speed",
        ),
        (
            '{"schema": "sortedf.steptime/1", "unit": "seconds", "source": "", '
            '"coefficients": {"fixed": -1}}',
            "fixed is -1",
        ),
        (
            '{"schema": "sortedf.steptime/1", "unit": "seconds", "source": "", '
            '"coefficients": {"fixed": "1"}}',
            "fixed|float|number",
        ),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    """A file that is no model is refused in one line that names it."""
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_step_time(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_missing_file_and_bad_coefficients() -> None:
    """A file that is not there, a coefficient that is no number of seconds, a wrong count."""
    with pytest.raises(InputError, match="cannot be read"):
        read_step_time("/nowhere/steptime.json")
    for value in (float("nan"), float("inf"), -1e-9, True):
        with pytest.raises(OptionError, match="context"):
            StepTimeModel(context=value)
    with pytest.raises(OptionError, match="4 coefficients, not 3"):
        StepTimeModel.of_form("sfs", [1, 2, 3])
    with pytest.raises(OptionError, match="called 'cubic'"):
        StepTimeModel.of_form("cubic", [1])

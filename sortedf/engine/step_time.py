"""How long a step takes: a weighted sum of what it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from sortedf.errors import Fault, InputError, OptionError
from sortedf.instances.files import write_whole
from sortedf.instances.json_text import JSON_ERRORS, json_fault
from sortedf.kernels.step_terms import (
    CHUNK_SQUARED,
    CONTEXT,
    CONTEXT_SQUARED,
    DECODE_TOKENS,
    PREFILL_TOKENS,
    PREFILL_WORK,
    STEPS,
    TERMS,
)

SCHEMA = "sortedf.steptime/1"

FloatArray = npt.NDArray[np.float64]

_COLUMNS: Mapping[str, tuple[int, ...]] = {
    "fixed": (STEPS,),
    "token": (PREFILL_TOKENS, DECODE_TOKENS),
    "prefill_token": (PREFILL_TOKENS,),
    "decode_token": (DECODE_TOKENS,),
    "context": (CONTEXT,),
    "prefill_work": (PREFILL_WORK,),
    "chunk_squared": (CHUNK_SQUARED,),
    "context_squared": (CONTEXT_SQUARED,),
}

LONGEST_STEP = 1e6
"""Seconds; no step takes so long, and no coefficient is larger."""

COEFFICIENTS = tuple(_COLUMNS)
"""Names of all coefficients, in the order in which they are written."""

FORMS: Mapping[str, tuple[str, ...]] = {
    "sfs": ("fixed", "token", "context", "prefill_work"),
    "six-term": (
        "fixed",
        "prefill_token",
        "decode_token",
        "context",
        "chunk_squared",
        "context_squared",
    ),
    "small": ("fixed", "prefill_token", "context"),
    "plain": ("fixed", "token", "context"),
}
"""Which coefficients a form has; the others are 0.

``sfs`` is the form of SFS (arXiv 2607.18253), ``six-term`` the richer one of its published
coefficients; ``small`` and ``plain`` (a token costs the same in a prompt and in a decode) are what
little data can tell.
"""


@dataclass(frozen=True, kw_only=True)
class StepTimeModel:
    """Seconds of a step, as a weighted sum; all coefficients in seconds, 0 for a term left out.

    A request that gets one token in a step is a decode, one that gets more is a prefill chunk. The
    context of a request is what is computed of it before the step, in tokens.

    Parameters
    ----------
    fixed
        For the step itself.
    token
        For each token of either kind.
    prefill_token, decode_token
        For each token of a prefill chunk; for each decode.
    context
        For each token of context of the decodes.
    prefill_work
        For each pair of tokens that a chunk of n after a context c attends to:
        n c + n (n + 1) / 2.
    chunk_squared
        For n squared of each prefill chunk.
    context_squared
        For the context squared of each decode.
    source
        Where the coefficients come from.

    Raises
    ------
    OptionError
        For a coefficient that is no number of seconds from 0 to 1e6.
    """

    fixed: float = 0.0
    token: float = 0.0
    prefill_token: float = 0.0
    decode_token: float = 0.0
    context: float = 0.0
    prefill_work: float = 0.0
    chunk_squared: float = 0.0
    context_squared: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        for name in COEFFICIENTS:
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 <= value <= LONGEST_STEP:
                raise OptionError(
                    f"{name} is {value!r}; it must be a number of seconds, 0 or more, "
                    f"at most {LONGEST_STEP:g}"
                )

    @classmethod
    def of_form(cls, form: str, values: Sequence[float], source: str = "") -> StepTimeModel:
        """Build a model from the coefficients of a form, in the order of :data:`FORMS`."""
        names = form_names(form)
        if len(values) != len(names):
            raise OptionError(f"the form {form} has {len(names)} coefficients, not {len(values)}")
        numbers = {name: float(value) for name, value in zip(names, values, strict=True)}
        return cls(**numbers, source=source)

    @property
    def seconds(self) -> FloatArray:
        """Seconds for each unit of each term of a step, shape (TERMS,), as the kernels read it."""
        total = np.zeros(TERMS)
        for name, columns in _COLUMNS.items():
            total[list(columns)] += getattr(self, name)
        return total

    @property
    def free(self) -> tuple[str, ...]:
        """Names of the coefficients that are not 0."""
        return tuple(name for name in COEFFICIENTS if getattr(self, name) > 0)

    def duration(self, work: npt.ArrayLike) -> FloatArray:
        """Seconds of steps, shape (steps,), from what they are made of, shape (steps, TERMS)."""
        result: FloatArray = np.asarray(work, np.float64) @ self.seconds
        return result

    def to_dict(self) -> dict[str, Any]:
        """Give the model as plain data, coefficients of 0 left out."""
        return {
            "schema": SCHEMA,
            "unit": "seconds",
            "source": self.source,
            "coefficients": {name: getattr(self, name) for name in self.free},
        }


def form_names(form: str) -> tuple[str, ...]:
    """Names of the coefficients of a form."""
    if form not in FORMS:
        raise OptionError(f"no step-time form is called {form!r}; there are {', '.join(FORMS)}")
    return FORMS[form]


def design_matrix(form: str, work: npt.ArrayLike) -> FloatArray:
    """Columns to fit a form by: shape (steps, coefficients of the form), from (steps, TERMS)."""
    terms = np.asarray(work, np.float64)
    columns = [terms[:, list(_COLUMNS[name])].sum(axis=1) for name in form_names(form)]
    return np.stack(columns, axis=1)


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: str
    unit: str
    source: str
    coefficients: dict[str, float]
    calibration: dict[str, Any] | None = None


def write_step_time(model: StepTimeModel, path: str | Path) -> None:
    """Write a model as a small JSON file; same model, same bytes."""
    text = msgspec.json.format(msgspec.json.encode(model.to_dict()), indent=2)
    write_whole(path, _bytes(text))


def _bytes(text: bytes) -> Iterator[bytes]:
    yield text + b"\n"


def read_step_time(path: str | Path) -> StepTimeModel:
    """Read a model.

    Raises
    ------
    InputError
        For a file that is not such a model, a coefficient of another name, negative or not finite.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise _fault(path, f"cannot be read: {error.strerror or error}") from None
    return parse_step_time(text, str(path))


def parse_step_time(text: bytes, path: str) -> StepTimeModel:
    """Read a model from the bytes of a file; see :func:`read_step_time`."""
    try:
        document = msgspec.json.decode(text, type=_Document)
    except JSON_ERRORS as error:
        raise _fault(path, f"is not a step-time model: {json_fault(text, error)}") from None
    if document.schema != SCHEMA:
        raise _fault(path, f"has schema {document.schema!r}; {SCHEMA!r} is expected")
    if document.unit != "seconds":
        raise _fault(path, f"has unit {document.unit!r}; coefficients are in seconds")
    return model_of(document.coefficients, path, document.source)


def model_of(coefficients: Mapping[str, float], path: str, source: str = "") -> StepTimeModel:
    """Build the model that a file holds; faults are those of the file."""
    if unknown := coefficients.keys() - set(COEFFICIENTS):
        names = ", ".join(sorted(unknown))
        raise _fault(path, f"has no known coefficient {names}; known: {', '.join(COEFFICIENTS)}")
    try:
        model = StepTimeModel(**coefficients, source=source)
    except OptionError as error:
        raise _fault(path, str(error)) from None
    if not model.free:
        raise _fault(path, "has no coefficient above 0; a step cannot take no time")
    return model


def _fault(path: str | Path, message: str) -> InputError:
    return InputError([Fault(str(path), None, message)])


def published() -> dict[str, StepTimeModel]:
    """Give the published coefficient sets that are packaged, by name."""
    folder = resources.files("sortedf.engine") / "data"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".json")),
        key=lambda file: file.name,
    )
    return {
        file.name.removesuffix(".json"): parse_step_time(file.read_bytes(), file.name)
        for file in files
    }


assert set(COEFFICIENTS) | {"source"} == {field.name for field in fields(StepTimeModel)}

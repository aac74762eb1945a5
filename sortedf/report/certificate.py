"""Read a price certificate (``sortedf.bound/1``)."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from sortedf.errors import Fault, InputError
from sortedf.instances import Source, open_source
from sortedf.instances.json_text import JSON_ERRORS
from sortedf.lp import Prices

SCHEMA = "sortedf.bound/1"

_Integer = Annotated[int, Meta(ge=-(2**62), le=2**62)]


class _Document(msgspec.Struct):
    schema: str
    kv_tokens: Annotated[int, Meta(ge=1, lt=2**62)]
    instance_sha256: str
    denominator: Annotated[int, Meta(ge=1, le=2**62)]
    prices: list[Annotated[list[_Integer], Meta(min_length=3, max_length=4)]]
    bound: Annotated[str, Meta(pattern="^-?[0-9]{1,4000}(/0*[1-9][0-9]{0,4000})?$")]


class Certificate(NamedTuple):
    """What the file claims: that these prices prove this bound for this backlog and budget."""

    kv_tokens: int
    instance_sha256: str
    prices: Prices
    bound: Fraction


def read_certificate(path: str | Path | Source) -> Certificate:
    """Read a certificate whose proof is one list of prices; nothing in it is believed yet.

    Raises
    ------
    InputError
        For what is not such a document.
    """
    source = path if isinstance(path, Source) else open_source(path)
    try:
        document = msgspec.json.decode(source.data, type=_Document)
        if document.schema != SCHEMA:
            raise ValueError(f"its schema is {document.schema!r}")  # noqa: TRY301
        rows = [[*row, 0][:4] for row in document.prices]
        first, last, numerator, slope = np.array(rows, np.int64).reshape(-1, 4).T
        prices = Prices(first, last, numerator, slope, document.denominator)
    except (*JSON_ERRORS, ValueError, OverflowError) as error:
        fault = Fault(source.name, None, f"not a {SCHEMA} document of prices: {error}")
        raise InputError([fault]) from None
    return Certificate(
        document.kv_tokens, document.instance_sha256, prices, Fraction(document.bound)
    )

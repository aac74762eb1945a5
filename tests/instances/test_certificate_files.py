"""Certificate files, written and read."""

from __future__ import annotations

import gzip
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sortedf.errors import InputError, OptionError
from sortedf.instances import (
    is_certificate,
    new_certificate,
    open_source,
    read_certificate,
    write_certificate,
)
from sortedf.lp import Bound, Prices
from sortedf.model import Instance

SMALL = Instance([5, 6, 7], [2, 3, 1], 20, ids=["a", "b", "ü"])
PRICES = Prices(
    np.array([1, 4, 5, 9]),
    np.array([3, 4, 8, 9]),
    np.array([9, 0, 4, 2]),
    np.array([-3, 0, 0, 0]),
    12,
)
BOUND = Bound(Fraction(13, 4), "prices", PRICES)
TREE = {
    "schema": "sortedf.bound/1",
    "kv_tokens": 20,
    "instance_sha256": SMALL.sha256,
    "denominator": 2**70,
    "price_lists": [[[1, 3, 2**69, -5], [4, 4, 1]], []],
    "tree": [[0, 3], 0, [2, 1], 1, 0],
    "bound": "13/4",
}


def test_the_layout_is_that_of_the_documentation(tmp_path: Path) -> None:
    """Keys in order, a piece a line, no slope where it is 0, no piece without a price."""
    path = tmp_path / "c.json"
    write_certificate(new_certificate(SMALL, BOUND), path)
    assert path.read_text() == (
        '{"schema":"sortedf.bound/1","kv_tokens":20,'
        f'"instance_sha256":"{SMALL.sha256}","denominator":12,"prices":[\n'
        "[1,3,9,-3],\n[5,8,4],\n[9,9,2]\n"
        '],"bound":"13/4"}\n'
    )
    more = new_certificate(SMALL, BOUND, block_size=16, skipped=[1, 4])
    assert list(more) == [
        *("schema", "kv_tokens", "block_size", "instance_sha256", "skipped"),
        *("denominator", "prices", "bound"),
    ]
    assert (more["block_size"], more["skipped"]) == (16, [1, 4])


@pytest.mark.parametrize("name", ["c.json", "c.json.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    """A certificate comes back whole, prices, trees and huge integers, and twice the same bytes."""
    none = np.array([], np.int64)
    nothing = Prices(none, none, none, none, 1)
    free = new_certificate(SMALL, Bound(Fraction(6), "prices", nothing))
    for certificate in (new_certificate(SMALL, BOUND, block_size=3, skipped=[7]), TREE, free):
        path = tmp_path / name
        write_certificate(certificate, path)
        data = path.read_bytes()
        assert read_certificate(path) == certificate
        text = gzip.decompress(data) if name.endswith(".gz") else data
        assert json.loads(text) == certificate
        write_certificate(certificate, path)
        assert path.read_bytes() == data


def test_standard_output(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """``-`` is standard output."""
    write_certificate(TREE, "-")
    assert json.loads(capsysbinary.readouterr().out) == TREE


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that is not there is one line, and nothing is left behind."""
    with pytest.raises(InputError, match="cannot be written") as caught:
        write_certificate(TREE, tmp_path / "no" / "c.json")
    assert len(str(caught.value).splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_formulas_have_no_certificate() -> None:
    """A closed form has no prices to write down."""
    with pytest.raises(OptionError, match="formula"):
        new_certificate(SMALL, Bound(Fraction(6), "output"))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"schema": "sortedf.bound/2"}, "its schema is sortedf.bound/2"),
        ({"schema": "sortedf.plan/1"}, "its schema is sortedf.plan/1"),
        ({"schema": None}, "names no schema"),
        ({"kv_tokens": None}, "missing required field `kv_tokens`"),
        ({"instance_sha256": None}, "missing required field `instance_sha256`"),
        ({"denominator": None}, "missing required field `denominator`"),
        ({"bound": None}, "missing required field `bound`"),
        ({"prices": None}, "either prices, or price_lists and tree"),
        ({"tree": [0]}, "either prices, or price_lists and tree"),
        ({"price_lists": [[]]}, "either prices, or price_lists and tree"),
        ({"prices": None, "tree": [0]}, "either prices, or price_lists and tree"),
        ({"why": 3}, "unknown field `why`"),
        ({"kv_tokens": 0}, "`int` >= 1 - at `$.kv_tokens`"),
        ({"kv_tokens": -(10**30)}, "`int` >= 1 - at `$.kv_tokens`"),
        ({"kv_tokens": "20"}, "Expected `int`, got `str` - at `$.kv_tokens`"),
        ({"denominator": True}, "Expected `int`, got `bool` - at `$.denominator`"),
        ({"denominator": 12.0}, "Expected `int`, got `float` - at `$.denominator`"),
        ({"block_size": 0}, "at `$.block_size`"),
        ({"skipped": 3}, "at `$.skipped`"),
        ({"bound": 3}, "Expected `str`, got `int` - at `$.bound`"),
        ({"prices": {}}, "at `$.prices`"),
        ({"prices": [[1, 2, 3], 5]}, "at `$.prices[1]`"),
        ({"prices": [[1, 2, 3.0]]}, "got `float` - at `$.prices[0][2]`"),
        ({"prices": [[1, "2", 3]]}, "got `str` - at `$.prices[0][1]`"),
        ({"prices": [[1, False, 3]]}, "got `bool` - at `$.prices[0][1]`"),
        ({"prices": None, "price_lists": [5], "tree": [0]}, "at `$.price_lists[0]`"),
        ({"prices": None, "price_lists": [[]], "tree": ["0"]}, "at `$.tree[0]`"),
    ],
)
def test_documents_that_are_none(tmp_path: Path, changes: dict[str, Any], fault: str) -> None:
    """What has no form of a certificate is one line: what is wrong, where, and what to do."""
    document = new_certificate(SMALL, BOUND) | changes
    path = tmp_path / "c.json"
    path.write_text(json.dumps({k: v for k, v in document.items() if v is not None}))
    with pytest.raises(InputError) as caught:
        read_certificate(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert fault in text
    assert text.endswith("; write it anew with sortedf bound --certificate")
    assert len(text.splitlines()) == 1


def test_truncated_and_damaged_files(tmp_path: Path) -> None:
    """A certificate that is cut off anywhere, packed or not, or is no JSON, is one line."""
    path = tmp_path / "c.json"
    for name in ("c.json", "c.json.gz"):
        write_certificate(TREE, tmp_path / name)
        whole = (tmp_path / name).read_bytes()
        for cut in range(0, len(whole) - 2, 3):
            path.write_bytes(whole[:cut])
            with pytest.raises(InputError) as caught:
                read_certificate(path)
            assert len(str(caught.value).splitlines()) == 1
    head = '{"schema":"sortedf.bound/1",'
    for text in (head + '"kv_tokens":1' + "0" * 5000 + "}", head + "kv}", head + "}} ", "[]", "3"):
        path.write_text(text)
        with pytest.raises(InputError) as caught:
            read_certificate(path)
        assert len(str(caught.value).splitlines()) == 1
    path.write_bytes(head.encode() + b'"bound":"\xff"}')
    with pytest.raises(InputError, match="not valid UTF-8"):
        read_certificate(path)


def test_what_is_a_certificate(tmp_path: Path) -> None:
    """Certificates of any version are told from plans and backlogs."""
    path = tmp_path / "x"
    for text, expected in (
        ('{"schema":"sortedf.bound/1","prices":[\n', True),
        ('{"kv_tokens":1,\n"schema":"sortedf.bound/9"}', True),
        ('{"schema":"sortedf.plan/1"}', False),
        ("prompt_tokens,output_tokens\n", False),
    ):
        path.write_text(text)
        assert is_certificate(open_source(path)) is expected

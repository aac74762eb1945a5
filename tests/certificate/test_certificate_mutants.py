"""Mutation test: whatever small thing is changed in the checker, some test case notices."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from mutants import endless_loops, load, survivors
from naive_certificate import by_step, document_of, naive_bound, random_proof

from sortedf import Instance, certificate

SOURCE = Path(certificate.__file__).read_text(encoding="utf-8")
BIG = 10**5000

_ROWS = (
    "self.rows: list[Sums] = [(0, 0, 0, 0)]  # value and slope of a piece, and the sums before it"
)
_EARLY = "if D * (p + o) >= best:"
_LONG = "if q - p > 1:"
_SIGN = "if d + u * e + u * (u - 1) // 2 * g < 0:"
_FIRST = "low = min(max(-(e // g), 0), width)"
_TIME = "it only takes longer"
_END = "then it is least at an end, and any answer will do"
EQUIVALENT = {
    "self.ends: list[int] = [0]  :  0  ->  -1": "no request starts before step 0",
    f"{_ROWS}  :  0  ->  1": "of the last sum only differences count",
    f"{_ROWS}  :  0  ->  -1": "of the last sum only differences count",
    "if window not in self.known:  :  if window not in self.known:  ->  if True:": _TIME,
    f"{_EARLY}  :  {_EARLY}  ->  if False:": _TIME,
    f"{_EARLY}  :  D * (p + o) >= best  ->  D * (p + o) > best": _TIME,
    f"{_EARLY}  :  D * (p + o) >= best  ->  D * (p + o) == best": _TIME,
    f"{_EARLY}  :  D * (p + o)  ->  D // (p + o)": _TIME,
    f"{_EARLY}  :  p + o  ->  p - o": _TIME,
    "break  # latency alone is too much, here and later": _TIME,
    f"{_LONG}  :  {_LONG}  ->  if True:": _TIME,
    f"{_LONG}  :  q - p > 1  ->  q - p >= 1": _TIME,
    f"{_LONG}  :  q - p > 1  ->  q - p != 1": _TIME,
    f"{_LONG}  :  q - p  ->  q + p": _TIME,
    f"{_LONG}  :  1  ->  0": _TIME,
    "low, high = 0, width  :  0  ->  1": _END,
    # Of a first difference that is never negative up to the middle m and convex, the sum up to any
    # step before 2 m + 2 is not negative either (pairs about m), so that halving loses nothing.
    "if g > 0:": _END,
    _FIRST: _END,
    "if g < 0:  :  0  ->  -1": "with g = -1 no hump is so narrow that halving jumps over it",
    "high = min(max(e // -g + 1, 0), width)  :  1  ->  2": _END,
    "high = min(max(e // -g + 1, 0), width)  :  0  ->  1": _END,
    f"{_SIGN}  :  {_SIGN[3:-1]}  ->  {_SIGN[3:-5]} <= 0": "as good, where it is 0",
    f"{_SIGN}  :  0  ->  1": "as good, where it is 0",
    "low = u + 1  :  1  ->  0": _TIME,
    "return 1  :  1  ->  2": "nobody looks at it: the form is wrong",
    "return Fraction()": "nobody looks at it: the form is wrong",
}
"""Mutants that do the same as the original, ``line : change``, or all of a line, and why."""

Columns = tuple[list[Any], list[Any], list[Any] | None]
THREE = Instance([2, 3, 1], [3, 2, 4], 7, release=[0, 1, 0], ids=["a", 'b,"', "c"])
COLUMNS: Columns = ([2, 3, 1], [3, 2, 4], [0, 1, 0])
PRICES = {"denominator": 12, "prices": [[1, 4, 9, -2], [6, 7, 1]]}
TREE = {
    "denominator": 12,
    "price_lists": [[[1, 4, 9, -2], [6, 7, 1]], [[2, 2, 5]]],
    "tree": [[0, 2], 0, [2, 5], 1, 0],
}


class Case(NamedTuple):
    """Arguments of ``check``, and what it has to answer."""

    arguments: tuple[Any, ...]
    options: dict[str, Any]
    bound: Fraction | None
    sizes: tuple[int, int, int] | None  # horizon, pieces, leaves
    messages: list[tuple[str, str]]
    total: int


class Cheapest(NamedTuple):
    """Pieces and denominator of prices, a window of starts, and what the cheapest one costs."""

    pieces: list[list[int]]
    denominator: int
    window: tuple[int, int, int, int]
    cost: Fraction


class Cubic(NamedTuple):
    """Arguments of ``_turn``, and the least value of the cubic that they stand for."""

    arguments: tuple[int, int, int, int]
    values: list[int]


def differs(module: ModuleType, case: Case | Cubic | Cheapest) -> bool:
    """Whether a (mutated) checker answers otherwise than it has to, or fails."""
    try:
        if isinstance(case, Cubic):
            u = module._turn(*case.arguments)
            value = min(case.values[u], case.values[0], case.values[-1])
            return bool(u < 0 or value != min(case.values))
        if isinstance(case, Cheapest):
            pieces = [module.Piece(*piece) for piece in case.pieces]
            found: int = module._Prices(pieces, case.denominator).least(*case.window)
            return found != case.cost * case.denominator
        return answer(module, case) != (case.bound, case.sizes, case.messages, case.total)
    except Exception:  # whatever a mutant fails with
        return True


def answer(module: ModuleType, case: Case) -> tuple[Any, ...]:
    """Give what a case holds, by a checker."""
    try:
        report = module.check(*case.arguments, **case.options)
    except ValueError as error:
        return None, None, [("error", str(error)[:5])], 1
    messages = [(str(violation.kind), str(violation)) for violation in report.violations]
    assert report.ok == (not report.total)
    return report.bound, case.sizes and tuple(report[3:]), messages, report.total


def cubics(rng: random.Random) -> Iterator[Cubic]:
    """Give cubics whose least value lies inside, before or after where they bend, or at an end."""
    for _ in range(800):
        # A narrow hump above 0: the cubic is least before it, and about to fall further after it.
        width = rng.randint(2, 40)
        x, g = rng.randint(1, width - 1), -rng.randint(1, 24)
        e = -g * x + rng.randint(0, -g)
        d = rng.randint(2 * g, -g) - x * e - x * (x - 1) // 2 * g
        values = [0]
        for u in range(width):
            values.append(values[-1] + d + u * e + u * (u - 1) // 2 * g)
        yield Cubic((d, e, g, width), values)
    for _ in range(1500):
        d, width = rng.randint(-60, 60), rng.choice([1, 2, 3, 4, 9, 25])
        e, g = rng.randint(-20, 20), rng.choice([0, 0, -3, -2, -1, 1, 2, 3, 17, -17])
        values = [0]
        for u in range(width):
            values.append(values[-1] + d + u * e + u * (u - 1) // 2 * g)
        if min(values) < min(values[0], values[-1]) or rng.random() < 0.1:
            yield Cubic((d, e, g, width), values)


def by_twin(instance: Instance, proof: dict[str, Any]) -> Case:
    """Case of a certificate that holds, its bound by the naive twin."""
    document = document_of(instance, proof)
    arrays = (instance.prompt_tokens, instance.output_tokens, instance.release)
    lists = proof.get("price_lists", [proof.get("prices")])
    sizes = (
        max((pieces[-1][1] for pieces in lists if pieces), default=0),
        sum(len(pieces) for pieces in lists),
        sum(isinstance(entry, int) for entry in proof.get("tree", [0])),
    )
    columns = tuple(array.tolist() for array in arrays)
    return Case(
        (*columns, document), {"ids": instance.ids}, Fraction(document["bound"]), sizes, [], 0
    )


def by_hand(
    document: Any,
    *messages: tuple[str, str],
    bound: Fraction | None = None,
    columns: Columns = COLUMNS,
    total: int | None = None,
    sizes: tuple[int, int, int] | None = None,
    **options: Any,
) -> Case:
    """Case whose faults are written here."""
    count = len(messages) if total is None else total
    options = {"ids": THREE.ids} | options
    return Case((*columns, document), options, bound, sizes, list(messages), count)


def fixed_cases() -> Iterator[Case]:
    """List the edges, one by one."""
    plain, tree = document_of(THREE, PRICES), document_of(THREE, TREE)
    value = Fraction(plain["bound"])
    for proof in (PRICES, TREE, PRICES | {"prices": []}, PRICES | {"prices": [[5, 5, 0]]}):
        yield by_twin(THREE, proof)
    # Each sign of the second and third differences within long cells, minima inside and at ends.
    for numerator in (0, 1, 7, 40, 600):
        for slope in (-9, -1, 0, 1, 7):
            for last in (2, 3, 4, 31):
                if numerator + slope * (last - 1) >= 0:
                    for more in ([], [[last + 1, 70, 30]], [[last + 2, 70, 90, -1]]):
                        proof = {"denominator": 60, "prices": [[1, last, numerator, slope], *more]}
                        yield by_twin(Instance([1, 4, 2], [9, 1, 3], 12, release=[0, 0, 8]), proof)
    # Without releases, and without names.
    none = Instance([2, 3], [3, 2], 9)
    document = document_of(none, PRICES)
    yield by_hand(
        document, columns=([2, 3], [3, 2], None), ids=None, bound=Fraction(document["bound"])
    )
    yield by_hand(
        document,
        ("wrong backlog", other_content(document, Instance([2, 3], [3, 2], 9, ids=["1", "0"]))),
        columns=([2, 3], [3, 2], [0, 0]),
        ids=["1", "0"],
        bound=Fraction(document["bound"]),
    )
    yield from cases_of_blocks()
    yield from cases_of_form(plain, tree, value)
    yield from cases_of_pieces(plain, tree)
    yield from cases_of_the_tree(tree)
    for i, (column, number) in enumerate(
        (c, x) for c in range(3) for x in (0, -1, True, 1.0, "2", None, BIG)
    ):
        if (column, number) in ((2, 0), (0, BIG), (1, BIG), (2, BIG)):
            continue
        rows: list[list[Any]] = [[2, 3, 1], [3, 2, 4], [0, 1, 0]]
        rows[column][i % 3] = number
        shown = [show(rows[c][i % 3]) for c in range(3)]
        name = repr(THREE.ids[i % 3])
        text = f"request {name}: prompt {shown[0]}, output {shown[1]}, release {shown[2]}"
        message = ("invalid request", f"{text}; must be integers >= 1, 1, 0")
        columns = (rows[0], rows[1], rows[2])
        yield by_hand(plain, message, columns=columns)
        yield by_hand(
            [], message, ("no certificate", "it is a list, not an object"), columns=columns
        )
    for kv_tokens, words in ((8, "8"), ("7", "'7'"), (BIG, "an integer of 16610 bits")):
        text = f"the certificate is for a KV budget of 7 tokens, not {words}"
        yield by_hand(plain, ("wrong budget", text), kv_tokens=kv_tokens, bound=value)
    yield by_hand(plain, kv_tokens=7, bound=value)
    for bits in (200, 201):
        number = 2**bits - 1
        words = str(number) if bits == 200 else "an integer of 201 bits"
        text = f"the certificate is for a KV budget of 7 tokens, not {words}"
        yield by_hand(plain, ("wrong budget", text), kv_tokens=number, bound=value)
    for columns, ids in (
        (([1, 1], [1], [0]), ["a", "b"]),
        (([1], [1, 1], [0]), ["a"]),
        (([1], [1], [0, 0]), ["a"]),
        (([1], [1], [0]), ["a", "b"]),
    ):
        yield by_hand(plain, ("error", "zip()"), columns=columns, ids=ids)
    for room in (-1, 0, 1, 2, 5):
        text = "a certificate has no key "
        keys = ["x", "y", "z"]
        messages = [("no certificate", f"{text}{key!r}") for key in keys][: max(room, 0)]
        extra = plain | dict.fromkeys(keys)
        yield by_hand(extra, *messages, max_violations=room, total=3)
    many = [("no certificate", f"a certificate has no key '{k}'") for k in range(105)]
    yield by_hand(plain | {str(k): 0 for k in range(105)}, *many[:100], total=105)


def show(value: object) -> str:
    return repr(value) if isinstance(value, int | float | str) else f"a {type(value).__name__}"


def other_content(document: dict[str, Any], instance: Instance) -> str:
    recorded = document["instance_sha256"]
    return f"the certificate is for content {recorded!r}, the backlog has {instance.sha256!r}"


def cases_of_blocks() -> Iterator[Case]:
    """Blocks, and requests that are larger than the budget in blocks."""
    columns: Columns = ([2, 8, 3, 9, 1], [3, 2, 2, 1, 4], [0, 0, 1, 0, 0])
    instance = Instance([2, 3, 1], [3, 2, 4], 11, release=[0, 1, 0], ids=["0", "2", "4"])
    requests = list(zip(*(c or [] for c in columns), strict=True))
    options: dict[str, Any] = {"columns": columns, "ids": None}
    for block_size, skipped in ((3, [1, 3]), (4, [1, 3]), (2, [1, 3])):
        more = {"block_size": block_size, "skipped": skipped}
        document = document_of(instance, PRICES, Fraction(0), **more)
        bound = naive_bound(requests, document)
        document["bound"] = f"{bound.numerator}/{bound.denominator}"
        yield by_hand(document, bound=bound, **options)
        for wrong, text in (
            ([3, 1], "skipped: 1 is none of the positions after 3, of 5 requests"),
            ([1, 1], "skipped: 1 is none of the positions after 1, of 5 requests"),
            ([-1, 1], "skipped: -1 is none of the positions after -1, of 5 requests"),
            ([1, 5], "skipped: 5 is none of the positions after 1, of 5 requests"),
            ([1, 9], "skipped: 9 is none of the positions after 1, of 5 requests"),
            ([1, 3, 3], "skipped: 3 is none of the positions after 3, of 5 requests"),
            ([True, 3], "skipped: True is none of the positions after -1, of 5 requests"),
            ([1, True], "skipped: True is none of the positions after 1, of 5 requests"),
            ("13", "skipped is '13', not a list"),
        ):
            yield by_hand(document | {"skipped": wrong}, ("no certificate", text), **options)
        fits = [("wrong backlog", f"request '{i}' is left out, but it fits") for i in (0, 2)]
        yield by_hand(document | {"skipped": [0, 1, 2, 3]}, *fits, **options)
        # Faults of form come alone.
        text = "denominator is 0, not an integer of at least 1"
        spoiled = document | {"skipped": [7], "denominator": 0}
        yield by_hand(spoiled, ("no certificate", text), sizes=(7, 2, 1), **options)
    # 5 = 2 + 3 - 1 + 1 tokens in blocks of three and a budget of 5, down to 3; of 6, just so.
    one: Columns = ([2, 1], [3, 1], None)
    for kv_tokens, ok in ((5, True), (6, True), (7, True), (8, True), (9, False)):
        few = Instance([1], [1], kv_tokens, ids=["1"])
        document = document_of(few, PRICES, Fraction(0), block_size=3)
        bound = naive_bound([(1, 1, 0)], document)
        document |= {"skipped": [0], "bound": f"{bound.numerator}/{bound.denominator}"}
        if ok:
            yield by_hand(document, columns=one, ids=None, bound=bound)
        else:
            text = "request '0' is left out, but it fits"
            yield by_hand(document, ("wrong backlog", text), columns=one, ids=None)


def cases_of_form(plain: dict[str, Any], tree: dict[str, Any], value: Fraction) -> Iterator[Case]:
    """Keys, integers and fractions that are none."""
    for odd, shown in ((None, "a NoneType"), ([], "a list"), ("x", "'x'"), (1.5, "1.5")):
        message = ("no certificate", f"it is {shown}, not an object")
        yield by_hand(odd, message, sizes=(0, 0, 0))
    for document in (plain, tree):
        for key in document:
            rest = {k: v for k, v in document.items() if k != key}
            messages = [("no certificate", f"the key {key!r} is missing")]
            if key == "schema":
                text = "its schema is a NoneType, not 'sortedf.bound/1'"
                messages.append(("no certificate", text))
            if key == "tree":
                messages = [
                    ("no certificate", "the key 'prices' is missing"),
                    ("no certificate", "a certificate has no key 'price_lists'"),
                ]
            yield by_hand(rest, *messages)
    yield by_hand(
        plain | {"schema": "sortedf.bound/2"},
        ("no certificate", "its schema is 'sortedf.bound/2', not 'sortedf.bound/1'"),
    )
    yield by_hand(tree | {"prices": []}, ("no certificate", "a certificate has no key 'prices'"))
    yield by_hand(
        {},
        *(
            ("no certificate", f"the key {key!r} is missing")
            for key in ("bound", "denominator", "instance_sha256", "kv_tokens", "prices", "schema")
        ),
        ("no certificate", "its schema is a NoneType, not 'sortedf.bound/1'"),
    )
    for key in ("kv_tokens", "denominator", "block_size"):
        for odd in (0, -7, True, 7.0, "7", None, -BIG):
            shown = "an integer of 16610 bits" if odd == -BIG else show(odd)
            text = f"{key} is {shown}, not an integer of at least 1"
            yield by_hand(plain | {key: odd}, ("no certificate", text))
    for size, shown in ((8, "8"), (BIG, "an integer of 16610 bits")):
        text = f"the KV budget holds no block of {shown} tokens"
        yield by_hand(plain | {"block_size": size}, ("wrong budget", text))
    half = Instance([8, 9, 7], [3, 2, 4], 7, release=[0, 1, 0], ids=list(THREE.ids))
    document = document_of(THREE, PRICES, Fraction(0), block_size=7)
    bound = naive_bound([(s, o, a) for _, s, o, a in half], document | {"block_size": 1})
    document["bound"] = f"{bound.numerator}/{bound.denominator}"
    yield by_hand(document, bound=bound)
    for odd in (
        "",
        "7",
        "7/0",
        "7/-2",
        "7/2 ",
        "1.5/2",
        "+7/2",
        "1/" + "2" * 3998,
        "1/" + "2" * 4100,
        3,
        None,
        "٣/4",
    ):
        shown = show(odd)[:70]
        message = ("no certificate", f'bound is {shown}, not a fraction "p/q"')
        yield by_hand(plain | {"bound": odd}, message)
    p, q = value.numerator, value.denominator
    for same in (f"{3 * p}/{3 * q}", f"00{p}/0{q}"):
        yield by_hand(plain | {"bound": same}, bound=value)
    for other in (f"{-p}/{q}", f"{p + 1}/{q}", f"{p}/{q + 1}"):
        wrong = Fraction(other)
        recorded = f"the bound is recorded as {wrong.numerator}/{wrong.denominator}"
        text = f"{recorded}, the prices prove {p}/{q}"
        yield by_hand(plain | {"bound": other}, ("wrong bound", text), bound=value)
    big = "1" + "0" * 3996
    text = f"the bound is recorded as an integer of 13275 bits/1, the prices prove {p}/{q}"
    yield by_hand(plain | {"bound": f"{big}/1"}, ("wrong bound", text), bound=value)
    for content, shown in (("0" * 64, repr("0" * 64)), (5, "5"), (None, "a NoneType")):
        text = f"the certificate is for content {shown}, the backlog has {THREE.sha256!r}"
        yield by_hand(plain | {"instance_sha256": content}, ("wrong backlog", text), bound=value)
    # Ids that are quoted as in CSV, and those that are not.
    for name in ("x,y", 'x"y', "x\ny", "x\ry", "x;y", " x", "ä"):
        instance = Instance([2], [3], 7, ids=[name])
        document = document_of(instance, PRICES)
        yield by_hand(
            document, columns=([2], [3], [0]), ids=[name], bound=Fraction(document["bound"])
        )


def cases_of_pieces(plain: dict[str, Any], tree: dict[str, Any]) -> Iterator[Case]:
    """Prices that are none."""
    shape = "is not [first_step, last_step, numerator] or these and a slope"
    after = "after step"
    for rows, text in (
        ({}, "prices is a dict, not a list"),
        ([[1, 2]], f"prices, piece 0: a list {shape}"),
        ([[1, 2, 3, 4, 5]], f"prices, piece 0: a list {shape}"),
        ([[1, 2, 3], (3, 4, 5)], f"prices, piece 1: a tuple {shape}"),
        ([[1, 2, True]], f"prices, piece 0: a list {shape}"),
        ([[1, 2, 3, 0.5]], f"prices, piece 0: a list {shape}"),
        ([7], f"prices, piece 0: 7 {shape}"),
        ([[0, 2, 3]], f"prices, piece 0: steps 0..2 {after} 0"),
        ([[3, 2, 3]], f"prices, piece 0: steps 3..2 {after} 0"),
        ([[1, 3, 3], [3, 4, 3]], f"prices, piece 1: steps 3..4 {after} 3"),
        ([[4, 5, 3], [1, 2, 3]], f"prices, piece 1: steps 1..2 {after} 5"),
        ([[-BIG, 2, 3]], f"prices, piece 0: steps an integer of 16610 bits..2 {after} 0"),
        ([[1, 2, -1, 2]], "prices, piece 0: a price is negative"),
        ([[1, 3, 5, -3]], "prices, piece 0: a price is negative"),
        ([[1, 3, -1]], "prices, piece 0: a price is negative"),
    ):
        kind = "no certificate" if "not a list" in text else "invalid prices"
        yield by_hand(plain | {"prices": rows}, (kind, text))
    negative = [[1, 2, -1], [2, 3, 4], [9, 9, -1]]
    yield by_hand(
        plain | {"prices": negative},
        ("invalid prices", "prices, piece 0: a price is negative"),
        ("invalid prices", "prices, piece 1: steps 2..3 after step 2"),
    )
    # A price of nothing at the end of a slope is a price.
    for rows in ([[1, 3, 4, -2]], [[1, 3, 0, 2]], [[1, 1, 0, -5]]):
        yield by_twin(THREE, {"denominator": 3, "prices": rows})
    yield by_hand(
        tree | {"price_lists": [5, [[0, 0, 0]]]},
        ("no certificate", "price list 0 is 5, not a list"),
        ("invalid prices", "price list 1, piece 0: steps 0..0 after step 0"),
    )
    yield by_hand(
        tree | {"price_lists": None}, ("no certificate", "price_lists is a NoneType, not a list")
    )
    yield by_hand(tree | {"tree": 0}, ("no certificate", "tree is 0, not a list"))


def cases_of_the_tree(tree: dict[str, Any]) -> Iterator[Case]:
    """Trees that are none."""
    for entries, text in (
        ([], "the tree ends with 1 subtrees missing"),
        ([[0, 2], [1, 4], 0, 1], "the tree ends with 1 subtrees missing"),
        ([[0, 2], 0], "the tree ends with 1 subtrees missing"),
        ([[0, 2]], "the tree ends with 2 subtrees missing"),
        ([0, 1], "tree, entry 1: the tree is complete before it"),
        ([[0, 2], 0, 1, [0, 1]], "tree, entry 3: the tree is complete before it"),
        ([[0, 2], 0, 2], "tree, entry 2: it is leaf 2, but the 2 price lists count from 0"),
        ([7], "tree, entry 0: it is leaf 7, but the 2 price lists count from 0"),
        ([-1], "tree, entry 0: it is leaf -1, but the 2 price lists count from 0"),
        ([[3, 2], 0, 1], "tree, entry 0: it is about request 3, the 3 count from 0"),
        ([[9, 2], 0, 1], "tree, entry 0: it is about request 9, the 3 count from 0"),
        ([[-1, 2], 0, 1], "tree, entry 0: it is about request -1, the 3 count from 0"),
        (
            [[1, 0], 0, 1],
            "tree, entry 0: step 0 does not divide the starts 1.. that are left to request 1",
        ),
        (
            [[0, 2], [0, 2], 0, 1, 0],
            "tree, entry 1: step 2 does not divide the starts 0..2 that are left to request 0",
        ),
        (
            [[0, 2], [0, 3], 0, 1, 0],
            "tree, entry 1: step 3 does not divide the starts 0..2 that are left to request 0",
        ),
        (
            [[0, 2], 0, [0, 2], 0, 1],
            "tree, entry 2: step 2 does not divide the starts 3.. that are left to request 0",
        ),
        (["0"], "tree, entry 0: '0' is no leaf and no split"),
        ([True], "tree, entry 0: True is no leaf and no split"),
        ([[0, 2, 1], 0, 1], "tree, entry 0: a list is no leaf and no split"),
        ([[0, 2.0], 0, 1], "tree, entry 0: a list is no leaf and no split"),
        ([(0, 2), 0, 1], "tree, entry 0: a tuple is no leaf and no split"),
        ([0], "price list 1 belongs to no leaf"),
        ([[0, 2], 1, 1], "price list 0 belongs to no leaf"),
    ):
        bound = None
        if "belongs" in text:
            requests = [(s, o, a) for _, s, o, a in THREE]
            bound = naive_bound(requests, tree | {"tree": entries})
        messages = [("invalid tree", text)]
        if bound is not None and bound != Fraction(tree["bound"]):
            recorded = f"the bound is recorded as {tree['bound']}"
            p, q = bound.numerator, bound.denominator
            messages.append(("wrong bound", f"{recorded}, the prices prove {p}/{q}"))
        yield by_hand(tree | {"tree": entries}, *messages, bound=bound)
    # Splits at the first start that is left, and just before the last one.
    for entries in ([[1, 1], 0, 1], [[0, 0], 0, 1], [[0, 2], [0, 1], 0, 1, 0], [[2, 400], 1, 0]):
        yield by_twin(THREE, TREE | {"tree": entries})


def long_cells(rng: random.Random) -> Case:
    """One request, and a few long pieces, so that it may start best within a cell."""
    denominator = rng.choice([30, 100, 400])
    pieces, step = [], rng.choice([0, 0, 2])
    for _ in range(rng.randint(1, 4)):
        first, step = step + 1, step + rng.randint(4, 22)
        begin, end = rng.randint(0, denominator // 5), rng.randint(0, denominator // 5)
        slope = (end - begin) // (step - first)
        pieces.append([first, step, max(begin, -slope * (step - first)), slope])
        step += rng.choice([0, 0, 1, 5])
    s, o, a = rng.randint(1, 9), rng.randint(2, 15), rng.choice([0, 0, 4])
    instance = Instance([s], [o], 12, release=[a])
    return by_twin(instance, {"denominator": denominator, "prices": pieces})


def cheapest_starts(rng: random.Random) -> Cheapest:
    """One request between long slopes; cheaper starts beyond its window do not count."""
    pieces, step, price = [], 0, rng.randint(0, 60)
    for _ in range(rng.randint(2, 3)):
        first, step = step + 1, step + rng.randint(8, 40)
        slope = rng.randint(-6, 6)
        pieces.append([first, step, max(price, -slope * (step - first)), slope])
        price = rng.randint(0, 60)
    s, o, low = rng.randint(1, 9), rng.randint(5, 40), rng.randint(0, 10)
    high = low + rng.randint(0, 50)
    denominator = rng.randint(1, 3000)
    prices = by_step(pieces, denominator)
    costs = [
        p + o + sum((prices.get(p + k, Fraction()) * (s + k) for k in range(1, o + 1)), Fraction())
        for p in range(low, high + 1)
    ]
    return Cheapest(pieces, denominator, (s, o, low, high), min(costs))


def random_case(rng: random.Random) -> Case:
    """Small instance with a certificate that holds."""
    n = rng.randrange(1, 5)
    s = [rng.randrange(1, 6) for _ in range(n)]
    o = [rng.randrange(1, rng.choice([3, 9])) for _ in range(n)]
    a = [rng.choice([0, 0, 3, 11]) for _ in range(n)]
    instance = Instance(s, o, rng.randrange(1, 24), release=a)
    return by_twin(instance, random_proof(rng, instance, rng.choice([0, 6, 20, 45])))


def make_battery() -> list[Case | Cubic | Cheapest]:
    rng = random.Random(0)
    return [
        *(random_case(rng) for _ in range(40)),
        *cubics(rng),
        *fixed_cases(),
        *(cheapest_starts(rng) for _ in range(600)),
        *(long_cells(rng) for _ in range(300)),
        *(random_case(rng) for _ in range(200)),
    ]


@pytest.fixture(scope="module")
def battery() -> list[Case | Cubic | Cheapest]:
    return make_battery()


def test_battery_passes_on_the_original(battery: list[Case | Cubic | Cheapest]) -> None:
    """The checker itself answers every case as the twin or the hand does."""
    assert [case for case in battery if differs(certificate, case)] == []


def test_no_mutant_can_run_forever() -> None:
    """Without ``while`` and recursion there is only iteration over finite input: no time limit."""
    assert endless_loops(SOURCE) == []


def test_every_mutant_dies(battery: list[Case | Cubic | Cheapest]) -> None:
    """No change of one operator, constant, condition or statement passes the whole battery."""

    def dies(module: ModuleType) -> bool:
        return any(differs(module, case) for case in battery)

    assert not dies(load(compile(SOURCE, "certificate.py", "exec")))
    found, number = survivors(SOURCE, dies, EQUIVALENT)
    assert found == []
    assert number > 250

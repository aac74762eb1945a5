"""Certificates at the edges, one by one, and what the checker has to answer."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from certificate_cases import (
    BIG,
    PRICES,
    THREE,
    TREE,
    Case,
    Columns,
    by_hand,
    by_twin,
)
from naive_certificate import document_of, naive_bound

from sortedf import Instance


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
    yield from cases_of_workers()
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


def cases_of_workers() -> Iterator[Case]:
    """Several workers: budgets, and the lists of prices that they have."""
    lists = TREE["price_lists"]
    for budgets in ([7], [7, 7], [3, 7], [7, 6, 5]):
        yield by_twin(THREE, PRICES | {"workers": budgets})
        for numbers in ([0, 1, 1], [1, 0, 0], [0, 0, 1], [1, 1, 1]):
            rest = {"workers": budgets, "worker_lists": numbers[: len(budgets)]}
            yield by_twin(THREE, {"denominator": 12, "price_lists": lists} | rest)
    two = {"denominator": 12, "price_lists": lists, "workers": [7, 5], "worker_lists": [0, 1]}
    sound = document_of(THREE, two)
    value = Fraction(sound["bound"])
    yield by_hand(sound, bound=value, sizes=(7, 3, 1))
    # The larger budget is the one that a request is left out by.
    whole = document_of(THREE, two | {"skipped": [1], "workers": [7, 4]}, Fraction(0))
    yield by_hand(
        whole, ("wrong backlog", "request 'b,\"' is left out, but it fits"), sizes=(7, 3, 1)
    )
    # One token over each budget in blocks of two: on no worker.
    rows: Columns = ([5], [2], None)
    for workers in ([7, 8], [8, 7], [6, 7]):
        one = Instance([5], [2], max(workers), ids=["0"])
        more = two | {"workers": workers, "block_size": 2}
        document = document_of(one, more)
        yield by_hand(document, columns=rows, ids=None, bound=Fraction(document["bound"]))
    odd: Any
    for odd in ("x", None, 7, {}):
        text = f"workers is {show(odd)}, not a list"
        faults = [("no certificate", text), ("no certificate", BUDGET_0)]
        yield by_hand(sound | {"workers": odd}, *faults, LARGEST, LISTS_1)
    for odd in (0, -1, True, 7.0, "7", None):
        text = f"workers, budget 1 is {show(odd)}, not an integer of at least 1"
        yield by_hand(sound | {"workers": [7, odd]}, ("no certificate", text))
    yield by_hand(sound | {"workers": []}, ("no certificate", BUDGET_0), LARGEST, LISTS_1)
    yield by_hand(sound | {"kv_tokens": 8}, ("no certificate", LARGEST[1].replace("7", "8")))
    yield by_hand(sound | {"kv_tokens": 6}, ("no certificate", LARGEST[1].replace("7", "6")))
    text = "the KV budget holds no block of 6 tokens"
    yield by_hand(sound | {"block_size": 6}, ("wrong budget", text))
    for odd in ([0], [0, 1, 1], [0, 2], [0, 3], [-1, 1], [0, True], [0, "1"], [0, None], []):
        yield by_hand(sound | {"worker_lists": odd}, (LISTS_1[0], LISTS_1[1].replace("1 w", "2 w")))
    yield by_hand(
        sound | {"worker_lists": 7},
        ("no certificate", "worker_lists is 7, not a list"),
        (LISTS_1[0], LISTS_1[1].replace("1 w", "2 w")),
    )
    rest = {key: value for key, value in sound.items() if key != "price_lists"}
    yield by_hand(rest, ("no certificate", "the key 'price_lists' is missing"))
    both = ("no certificate", "a certificate has no key 'worker_lists'")
    yield by_hand(sound | {"tree": [0]}, both)
    text = f"the bound is recorded as 1/1, the prices prove {value}"
    text += "" if value.denominator > 1 else "/1"
    yield by_hand(sound | {"bound": "1/1"}, ("wrong bound", text), bound=value)


BUDGET_0 = "workers, budget 0 is 0, not an integer of at least 1"
LARGEST = ("no certificate", "kv_tokens is 7, not the largest budget of the workers")
LISTS_1 = (
    "no certificate",
    "worker_lists are not the numbers from 0 of the 2 price lists, one for each of 1 workers",
)


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
            for key in ("schema", "kv_tokens", "instance_sha256", "denominator", "bound", "prices")
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

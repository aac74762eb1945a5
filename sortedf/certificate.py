"""The independent checker of a lower bound: a certificate in, the bound that it proves out.

Standard library only, nothing of the package, exact integers: this one file, copied anywhere, is
all that has to be read to believe a bound. Where its prices come from does not matter.

- A token of memory costs price(t) >= 0 at step t = 1..T, and nothing after T. A request of s
  prompt and o output tokens, released at a, holds s + k tokens at step p + k for k = 1..o when it
  starts at p. Its latency and its memory together cost
  F(p) = p - a + o + sum_{k=1..o} price(p + k) (s + k).
- A schedule never holds more than the KV budget M, so all requests together pay at most
  M sum_t price(t) for memory. Their total latency is at least the sum of what each of them costs
  at least, over all starts a <= p <= max(T, a), less that; a start after T only costs more.
- Several workers hold together no more than the sum of their budgets, so that the same holds for
  them with that sum as M. Or each worker w has prices of its own: all pay at most
  sum_w M_w sum_t price_w(t), and a request costs at least what it does at its cheapest start on
  the cheapest of the workers that it fits on.
- A tree divides the schedules: some request has started by some step, or it starts later. In a
  leaf a request costs at least what it does over the starts that are left to it there. Every
  schedule is in some leaf, so the least bound of a leaf holds for all.

Prices are linear on pieces of the time axis: [first, last, numerator, slope] is
(numerator + slope (t - first)) / denominator for t = first..last. F is a sum over at most two
pieces at its ends and whole ones between, so that its differences by p are polynomials wherever
neither p + 1 nor p + o + 1 changes its piece. The model is that of [3]; the bound is derived for
this project (docs/certificates.md).

[3] Online Scheduling for LLM Inference with KV Cache Constraints, arXiv 2502.07115.
"""

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Any, NamedTuple

SCHEMA = "sortedf.bound/1"

_KEYS = ("schema", "kv_tokens", "instance_sha256", "denominator", "bound")
_MORE_KEYS = ("workers", "block_size", "skipped")
_PROOFS = {"tree": ("price_lists", "tree"), "worker_lists": ("price_lists", "worker_lists")}

_FRACTION = re.compile("(-?[0-9]+)/([0-9]+)", re.ASCII)
_MOST_DIGITS = 4000
_INTEGERS = ([int] * 3, [int] * 4)
_QUOTED = re.compile('[,"\r\n]')


class Kind(StrEnum):
    """What can be wrong with a certificate, or with the backlog that it is for."""

    FORM = "no certificate"
    PRICES = "invalid prices"
    TREE = "invalid tree"
    REQUEST = "invalid request"
    BUDGET = "wrong budget"
    BACKLOG = "wrong backlog"
    BOUND = "wrong bound"


class Violation(NamedTuple):
    """One thing that is wrong; ``str()`` of it is one line for a person."""

    kind: Kind
    message: str

    def __str__(self) -> str:
        return self.message


class Report(NamedTuple):
    """What :func:`check` found.

    ``violations`` holds the first ones in full, ``total`` counts all. ``bound`` (steps) is what the
    prices prove of the backlog given, whatever the certificate records; ``None`` unless its form
    is sound and every request valid. ``horizon`` is the last priced step; ``pieces`` and
    ``leaves`` are how many there are.
    """

    violations: tuple[Violation, ...]
    total: int
    bound: Fraction | None
    horizon: int
    pieces: int
    leaves: int

    @property
    def ok(self) -> bool:
        """Whether nothing at all is wrong."""
        return not self.total


class Request(NamedTuple):
    """A request of the backlog: its name, s, o (tokens) and a (step)."""

    name: str
    s: int
    o: int
    a: int


class Window(NamedTuple):
    """A request in a leaf: s, o, and the starts low..high that are left; ``None``: no last one."""

    s: int
    o: int
    low: int
    high: int | None


class Piece(NamedTuple):
    """Prices of the steps first..last, times the denominator: value, value + slope, ..."""

    first: int
    last: int
    value: int
    slope: int


def check(
    prompt_tokens: Sequence[Any],
    output_tokens: Sequence[Any],
    release: Sequence[Any] | None,
    certificate: Any,
    *,
    kv_tokens: Any = None,
    ids: Sequence[str] | None = None,
    max_violations: int = 100,
) -> Report:
    """Recompute the bound that a certificate proves. Odd values are reported, never raised.

    Parameters
    ----------
    prompt_tokens, output_tokens, release
        s and o (tokens, >= 1) and a (step, >= 0) of each request of the backlog, length n; no
        release: all 0.
    certificate
        The document as plain data: dicts, lists, strings and integers.
    kv_tokens
        The KV budget that the bound has to be for; the certificate's own if left out.
    ids
        Names of the requests, length n; "0", "1", ... if left out.
    max_violations
        How many violations are given in full; the others are counted.

    Raises
    ------
    ValueError
        If sequences that belong together differ in length.

    Notes
    -----
    An integer is an ``int`` of any size: no bool, no float. O(K log K) for each kind of request
    with each price list that it meets, K pieces, and O(n) for each entry of the tree.
    """
    log = _Log(max_violations)
    requests = _requests(prompt_tokens, output_tokens, release, ids, log)
    document = _document(certificate, log)
    if document is None:
        return Report(tuple(log.kept), log.total, None, 0, 0, 0)
    denominator = _whole(document["denominator"], "denominator", log)
    block_size = _whole(document.get("block_size", 1), "block_size", log)
    budgets = _budgets(document, block_size, log)
    recorded = _recorded(document["bound"], log)
    if "prices" in document:
        price_lists = [_pieces(document["prices"], "prices", log)]
    else:
        lists = _items(document["price_lists"], "price_lists", log)
        price_lists = [_pieces(rows, f"price list {k}", log) for k, rows in enumerate(lists)]
    tree = _items(document.get("tree", [0]), "tree", log)
    of_worker = None
    if "worker_lists" in document:
        of_worker = _lists(document["worker_lists"], len(budgets), len(price_lists), log)
    bound = None
    if not log.total:
        left = _left(requests, document.get("skipped", []), block_size, max(budgets), log)
    if not log.total:
        windows = [Window(s + block_size - 1, o, a, None) for _, s, o, a in left]
        prices = [_Prices(pieces, denominator) for pieces in price_lists]
        if of_worker is None:
            least = _least_leaf(windows, prices, tree, sum(budgets), log)
        else:
            least = _cheapest_workers(windows, prices, of_worker, budgets)
        if least is not None:
            bound = Fraction(least, denominator) - sum(a for _, _, _, a in left)
            if bound != recorded:
                text = f"the bound is recorded as {_fraction(recorded)}"
                log.add(Kind.BOUND, f"{text}, the prices prove {_fraction(bound)}")
        if document["instance_sha256"] != (found := _sha256(left)):
            text = f"the certificate is for content {_show(document['instance_sha256'])}"
            log.add(Kind.BACKLOG, f"{text}, the backlog has {found!r}")
    if kv_tokens is not None and document["kv_tokens"] != kv_tokens:
        text = f"the certificate is for a KV budget of {_show(document['kv_tokens'])} tokens"
        log.add(Kind.BUDGET, f"{text}, not {_show(kv_tokens)}")
    return Report(
        tuple(log.kept),
        log.total,
        bound,
        max((pieces[-1].last for pieces in price_lists if pieces), default=0),
        sum(map(len, price_lists)),
        sum(type(entry) is int for entry in tree),
    )


Sums = tuple[int, int, int, int]
"""What is known of a step: see :meth:`_Prices.at`."""


class _Prices:
    """Prices as a function of time, and what requests cost at least."""

    def __init__(self, pieces: Iterable[Piece], denominator: int) -> None:
        self.denominator = denominator
        # Without gaps: row j is for ends[j] < t <= ends[j + 1]; the last one, from T on, is free.
        self.ends: list[int] = [0]
        self.rows: list[Sums] = [(0, 0, 0, 0)]  # value and slope of a piece, and the sums before it
        self.known: dict[Window, int] = {}
        for first, last, value, slope in pieces:
            for end, row in ((first - 1, (value, slope)), (last, (0, 0))):
                total, moment, _, _ = self.at(end)
                self.ends.append(end)
                self.rows.append((*row, total, moment))
        self.horizon = self.ends[-1]
        self.total = self.rows[-1][2]

    def at(self, step: int) -> Sums:
        """Sum up price(u) and u price(u) over u <= t, and look at step t + 1: its price and slope.

        All times the denominator.
        """
        j = bisect_right(self.ends, step) - 1
        value, slope, total, moment = self.rows[j]
        m = step - self.ends[j]
        # Sums over u = 1..m of value + slope (u - 1), and of u times that.
        part = value * m + slope * (m * (m - 1) // 2)
        parts = value * (m * (m + 1) // 2) + slope * ((m - 1) * m * (m + 1) // 3)
        return total + part, moment + self.ends[j] * part + parts, value + slope * m, slope

    def bound(self, windows: Iterable[Window], budget: int) -> int:
        """Bound the sum of all completions, times the denominator."""
        costs = -budget * self.total
        for window, count in Counter(windows).items():
            if window not in self.known:
                self.known[window] = self.least(*window)
            costs += count * self.known[window]
        return costs

    def cost(self, s: int, o: int, start: int, here: Sums, there: Sums) -> int:
        """Completion and memory of a request that starts at p, times the denominator.

        sum_k price(p + k) (s + k) is the sum of price(u) (s - p + u) over u = p + 1 .. p + o, the
        difference of the sums up to p + o (``there``) and up to p (``here``).
        """
        memory = (s - start) * (there[0] - here[0]) + there[1] - here[1]
        return self.denominator * (start + o) + memory

    def least(self, s: int, o: int, low: int, high: int | None) -> int:
        """Find the least cost of all starts low..high, those up to max(T, low) if there is no end.

        The steps where p or p + o changes its piece cut the starts into cells; in a cell the first
        difference cost(p + 1) - cost(p) is quadratic in p.
        """
        D = self.denominator
        last = max(self.horizon, low)
        last = last if high is None else min(last, high)
        ends = self.ends
        nodes = {last}
        nodes.update(ends[bisect_right(ends, low) : bisect_left(ends, last)])
        shifted = ends[bisect_right(ends, low + o) : bisect_left(ends, last + o)]
        nodes.update([end - o for end in shifted])
        p, here, there = low, self.at(low), self.at(low + o)
        best = self.cost(s, o, p, here, there)
        for q in sorted(nodes):
            if D * (p + o) >= best:
                break  # latency alone is too much, here and later
            if q - p > 1:
                held, _, price, slope = here
                held_then, _, price_then, slope_then = there
                u = _turn(
                    D + price_then * (s + o) - price * s - (held_then - held),
                    slope_then * (s + o) - slope * s - price_then + price,
                    slope - slope_then,
                    q - p,
                )
                best = min(best, self.cost(s, o, p + u, self.at(p + u), self.at(p + u + o)))
            p, here, there = q, self.at(q), self.at(q + o)
            best = min(best, self.cost(s, o, p, here, there))
        return best


def _turn(d: int, e: int, g: int, width: int) -> int:
    """Find u in 0..width where a cubic is least, unless it is least at an end: then any.

    Its first difference at u is d + u e + u (u - 1) / 2 g, the second one e + u g. Where the second
    one is negative the cubic is concave: least at an end of that part. Where it is not, the first
    one never falls, and the cubic is least where that ceases to be negative, in low..high.
    """
    low, high = 0, width
    if g > 0:
        low = min(max(-(e // g), 0), width)
    if g < 0:
        high = min(max(e // -g + 1, 0), width)
    for _ in range(width.bit_length()):  # halved until they meet
        u = (low + high) // 2
        if d + u * e + u * (u - 1) // 2 * g < 0:
            low = u + 1
        else:
            high = u
    return high


def _least_leaf(
    windows: list[Window], prices: list[_Prices], tree: list[Any], budget: int, log: "_Log"
) -> int | None:
    """Take the least bound of a leaf, times the denominator; ``None`` when the tree is none.

    Entries come split by split: [request, step], then the tree of the schedules in which it has
    started by that step, then that of the others; a leaf is the number of its price list.
    """
    least = None
    used = set()
    waiting = [windows]  # what is left to each subtree that is still to come, the next one last
    for k, entry in enumerate(tree):
        if not waiting:
            log.add(Kind.TREE, f"tree, entry {k}: the tree is complete before it")
            return None
        windows = waiting.pop()
        if type(entry) is int:
            if not 0 <= entry < len(prices):
                text = f"it is leaf {_show(entry)}, but the {len(prices)} price lists count from 0"
                log.add(Kind.TREE, f"tree, entry {k}: {text}")
                return None
            used.add(entry)
            bound = prices[entry].bound(windows, budget)
            least = bound if least is None else min(least, bound)
        elif type(entry) is list and [type(x) for x in entry] == [int, int]:
            i, step = entry
            if not 0 <= i < len(windows):
                text = f"it is about request {_show(i)}, the {len(windows)} count from 0"
                log.add(Kind.TREE, f"tree, entry {k}: {text}")
                return None
            window = windows[i]
            if step < window.low or (window.high is not None and step >= window.high):
                text = f"step {_show(step)} does not divide the starts {_show(window.low)}.."
                end = "" if window.high is None else _show(window.high)
                log.add(Kind.TREE, f"tree, entry {k}: {text}{end} that are left to request {i}")
                return None
            by_then, later = windows.copy(), windows.copy()
            by_then[i] = window._replace(high=step)
            later[i] = window._replace(low=step + 1)
            waiting += [later, by_then]
        else:
            log.add(Kind.TREE, f"tree, entry {k}: {_show(entry)} is no leaf and no split")
            return None
    if waiting:
        log.add(Kind.TREE, f"the tree ends with {len(waiting)} subtrees missing")
        return None
    for k in range(len(prices)):
        if k not in used:
            log.add(Kind.TREE, f"price list {k} belongs to no leaf")
    return least


def _cheapest_workers(
    windows: list[Window], prices: list[_Prices], of_worker: list[int], budgets: list[int]
) -> int:
    """Bound the sum of all completions where each worker has a list, times the denominator."""
    costs = -sum(budget * prices[of_worker[w]].total for w, budget in enumerate(budgets))
    for window, count in Counter(windows).items():
        size = window.s + window.o
        fits = {of_worker[w] for w, budget in enumerate(budgets) if size <= budget}
        costs += count * min((prices[k].least(*window) for k in fits), default=0)
    return costs


def _requests(
    prompt_tokens: Sequence[Any],
    output_tokens: Sequence[Any],
    release: Sequence[Any] | None,
    ids: Sequence[str] | None,
    log: "_Log",
) -> list[Request]:
    """Put the columns of the backlog together, as far as they are valid."""
    n = len(prompt_tokens)
    a = [0] * n if release is None else release
    names = list(map(str, range(n))) if ids is None else ids
    requests = []
    for row in zip(names, prompt_tokens, output_tokens, a, strict=True):
        name, si, oi, ai = row
        whole = type(si) is int and type(oi) is int and type(ai) is int
        if whole and si > 0 and oi > 0 and ai >= 0:
            requests.append(Request(*row))
        else:
            values = f"prompt {_show(si)}, output {_show(oi)}, release {_show(ai)}"
            text = f"request {_show(name)}: {values}; must be integers >= 1, 1, 0"
            log.add(Kind.REQUEST, text)
    return requests


def _left(
    requests: list[Request], skipped: Any, block_size: int, budget: int, log: "_Log"
) -> list[Request]:
    """Leave out the requests that the certificate leaves out, which no schedule can serve."""
    out: list[int] = []
    for i in _items(skipped, "skipped", log):
        before = out[-1] if out else -1
        if type(i) is not int or not before < i < len(requests):
            text = f"{_show(i)} is none of the positions after {before}"
            log.add(Kind.FORM, f"skipped: {text}, of {len(requests)} requests")
            break
        out.append(i)
        if requests[i].s + block_size - 1 + requests[i].o <= budget:
            log.add(Kind.BACKLOG, f"request {_show(requests[i].name)} is left out, but it fits")
    left_out = set(out)
    return [request for i, request in enumerate(requests) if i not in left_out]


def _document(certificate: Any, log: "_Log") -> dict[str, Any] | None:
    """Take what has the keys of a certificate."""
    if type(certificate) is not dict:
        log.add(Kind.FORM, f"it is {_show(certificate)}, not an object")
        return None
    proof = next((keys for key, keys in _PROOFS.items() if key in certificate), ("prices",))
    keys = _KEYS + proof
    faults = [f"the key {key!r} is missing" for key in keys if key not in certificate]
    unknown = [key for key in certificate if key not in keys + _MORE_KEYS]
    faults += [f"a certificate has no key {_show(key)}" for key in unknown]
    if certificate.get("schema") != SCHEMA:
        faults.append(f"its schema is {_show(certificate.get('schema'))}, not {SCHEMA!r}")
    for fault in faults:
        log.add(Kind.FORM, fault)
    return None if faults else certificate


def _whole(value: Any, key: str, log: "_Log") -> int:
    """Take an integer of at least 1."""
    if type(value) is int and value > 0:
        return value
    log.add(Kind.FORM, f"{key} is {_show(value)}, not an integer of at least 1")
    return 1


def _budgets(document: dict[str, Any], block_size: int, log: "_Log") -> list[int]:
    """Take the budget of each worker, in whole blocks; one worker if none are named."""
    most = _whole(document["kv_tokens"], "kv_tokens", log)
    budgets = [most]
    if "workers" in document:
        items = _items(document["workers"], "workers", log) or [0]
        budgets = [_whole(m, f"workers, budget {w}", log) for w, m in enumerate(items)]
        if max(budgets) != most:
            log.add(Kind.FORM, f"kv_tokens is {_show(most)}, not the largest budget of the workers")
    budgets = [budget // block_size * block_size for budget in budgets]
    if not all(budgets):
        log.add(Kind.BUDGET, f"the KV budget holds no block of {_show(block_size)} tokens")
    return budgets


def _lists(value: Any, workers: int, price_lists: int, log: "_Log") -> list[int]:
    """Take the number of the price list of each worker."""
    items = _items(value, "worker_lists", log)
    if len(items) != workers or any(type(k) is not int or not 0 <= k < price_lists for k in items):
        text = f"of the {price_lists} price lists, one for each of {workers} workers"
        log.add(Kind.FORM, f"worker_lists are not the numbers from 0 {text}")
    return items


def _items(value: Any, key: str, log: "_Log") -> list[Any]:
    """Take a list."""
    if type(value) is list:
        return value
    log.add(Kind.FORM, f"{key} is {_show(value)}, not a list")
    return []


def _recorded(value: Any, log: "_Log") -> Fraction:
    """Take the bound that is recorded, "p/q"."""
    match = _FRACTION.fullmatch(value) if type(value) is str else None
    if match is not None and len(value) < _MOST_DIGITS and int(match[2]):
        return Fraction(int(match[1]), int(match[2]))
    log.add(Kind.FORM, f'bound is {_show(value)}, not a fraction "p/q"')
    return Fraction()


def _pieces(value: Any, where: str, log: "_Log") -> list[Piece]:
    """Take a list of pieces that are disjoint, ascending and nowhere negative."""
    pieces: list[Piece] = []
    before = 0
    for k, row in enumerate(_items(value, where, log)):
        if type(row) is not list or [type(x) for x in row] not in _INTEGERS:
            text = f"{_show(row)} is not [first_step, last_step, numerator] or these and a slope"
            log.add(Kind.PRICES, f"{where}, piece {k}: {text}")
            break
        piece = Piece(*row, *[0] * (4 - len(row)))
        first, last, price, slope = piece
        if not before < first <= last:
            text = f"steps {_show(first)}..{_show(last)} after step {_show(before)}"
            log.add(Kind.PRICES, f"{where}, piece {k}: {text}")
            break
        if min(price, price + slope * (last - first)) < 0:
            log.add(Kind.PRICES, f"{where}, piece {k}: a price is negative")
        before = last
        pieces.append(piece)
    return pieces


def _sha256(requests: Iterable[Request]) -> str:
    """Hash the lines `id,prompt_tokens,output_tokens,release`, ids quoted as in CSV."""
    digest = hashlib.sha256()
    for name, s, o, a in requests:
        if _QUOTED.search(name):
            name = '"' + name.replace('"', '""') + '"'
        digest.update(f"{name},{s},{o},{a}\n".encode())
    return digest.hexdigest()


class _Log:
    """The first `room` violations in full and the count of all."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.kept: list[Violation] = []
        self.total = 0

    def add(self, kind: Kind, message: str) -> None:
        self.total += 1
        if len(self.kept) < self.room:
            self.kept.append(Violation(kind, message))


def _fraction(value: Fraction) -> str:
    return f"{_show(value.numerator)}/{_show(value.denominator)}"


def _show(value: object) -> str:
    """One short line for any value, also for those that cannot be printed."""
    if type(value) is int and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    if type(value) in (bool, int, float, str):
        return repr(value)[:70]
    return f"a {type(value).__name__}"

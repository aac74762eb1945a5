"""The lower bound of a report, and the prices behind it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sortedf.errors import Fault, InputError
from sortedf.instances import Source, read_certificate
from sortedf.lp import Prices, ascend, lower_bound, price_bound
from sortedf.model import Instance
from sortedf.solvers import certified_bound


@dataclass(frozen=True)
class Proof:
    """A lower bound on the total latency of every schedule, and prices of memory.

    Parameters
    ----------
    value, kind
        The bound (steps, exact), and what proves it: ``prices`` or the name of a closed form.
    prices, price_value
        Good prices, and the bound that they prove, at most ``value``.
    file, file_sha256
        The certificate that the prices are from; ``None`` if they were found for the report.
    """

    value: Fraction
    kind: str
    prices: Prices
    price_value: Fraction
    file: str | None = None
    file_sha256: str | None = None


def find_proof(planned: Instance) -> Proof:
    """Find a bound and prices for an instance; where a closed form is better, both are given."""
    bound = lower_bound(planned)
    if bound.prices is not None:
        return Proof(bound.value, bound.kind, bound.prices, bound.value)
    prices, value = ascend(planned.pooled)
    return Proof(bound.value, bound.kind, prices, value)


def proof_from(source: Source, instance: Instance, planned: Instance) -> Proof:
    """Take the proof of a certificate for an instance, and what it proves for it in blocks.

    The certificate is checked as it stands. Prices prove a bound for any instance and are taken for
    ``planned``, the instance in blocks; a tree has to be one for that, and prices are found beside.

    Raises
    ------
    InputError
        If the file is no certificate, or one of another backlog, budget or block size.
    VerificationError
        If it does not prove what it claims.
    """
    recorded = read_certificate(source)
    block_size = recorded.get("block_size", 1)
    if recorded["instance_sha256"] != instance.sha256:
        raise _fault(source, "the certificate is of another backlog than the plans")
    if recorded["kv_tokens"] != instance.kv_tokens:
        budgets = f"{recorded['kv_tokens']} tokens, the plans {instance.kv_tokens}"
        raise _fault(source, f"the certificate is for {budgets}")
    if recorded.get("workers", [instance.kv_tokens]) != instance.budgets.tolist():
        raise _fault(source, "the certificate is for other workers than the plans")
    if "prices" not in recorded and instance.in_blocks(block_size) != planned:
        raise _fault(source, f"its proof is for blocks of {block_size}, the plans for others")
    of_these = {key: value for key, value in recorded.items() if key != "skipped"}
    bound = certified_bound(instance, of_these, source.name)
    digest = hashlib.sha256(source.data).hexdigest()
    if "prices" not in recorded:
        prices, value = ascend(planned.pooled)
        best = max(bound, value)
        kind = "branching" if "tree" in recorded else "prices of each worker"
        return Proof(best, kind, prices, value, source.name, digest)
    rows = np.array([[*row, 0][:4] for row in recorded["prices"]], object).reshape(-1, 4)
    try:
        first, last, numerator, slope = rows.T.astype(np.int64)
        prices = Prices(first, last, numerator, slope, recorded["denominator"])
    except (OverflowError, ValueError) as error:
        raise _fault(source, f"its prices cannot be drawn: {error}") from None
    value = price_bound(planned.pooled, prices)
    return Proof(value, "prices", prices, value, source.name, digest)


def _fault(source: Source, message: str) -> InputError:
    return InputError([Fault(source.name, None, message)])

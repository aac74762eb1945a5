"""The lower bound of a report, and the prices behind it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction

from sortedf.errors import Fault, InputError, VerificationError
from sortedf.instances import Source
from sortedf.lp import Prices, ascend, lower_bound, price_bound
from sortedf.model import Instance
from sortedf.report.certificate import read_certificate


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
    prices, value = ascend(planned)
    return Proof(bound.value, bound.kind, prices, value)


def proof_from(source: Source, instance: Instance, planned: Instance) -> Proof:
    """Take the prices of a certificate for an instance, and what they prove for it in blocks.

    Prices prove a bound for any instance. That of the certificate, for the plain budget, is
    recomputed to see that it is right; then they are taken for ``planned``, the instance in blocks.

    Raises
    ------
    InputError
        If the file is no certificate, or one of another backlog or budget.
    VerificationError
        If its prices do not prove what it claims.
    """
    found = read_certificate(source)
    if found.instance_sha256 != instance.sha256:
        raise InputError(
            [Fault(source.name, None, "the certificate is of another backlog than the plans")]
        )
    if found.kv_tokens != instance.kv_tokens:
        message = f"the certificate is for {found.kv_tokens} tokens, the plans {instance.kv_tokens}"
        raise InputError([Fault(source.name, None, message)])
    true = price_bound(instance, found.prices)
    if true != found.bound:
        raise VerificationError(
            [f"{source.name}: the bound is recorded as {found.bound}, its prices prove {true}"]
        )
    value = true if planned is instance else price_bound(planned, found.prices)
    digest = hashlib.sha256(source.data).hexdigest()
    return Proof(value, "prices", found.prices, value, source.name, digest)

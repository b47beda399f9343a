"""Payments: an imitation of a provider."""

import itertools

_receipts = itertools.count(1)


class PaymentError(Exception):
    """The provider refused the payment."""


def charge(customer: str, cents: int) -> str:
    """Charge a customer and return a receipt number; refuse amounts that are not positive."""
    if cents <= 0:
        raise PaymentError(f"{customer}: nothing to pay")
    return f"R-{next(_receipts):06}"

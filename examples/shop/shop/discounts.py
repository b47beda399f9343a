"""Discounts by the value of an order."""

THRESHOLD_CENTS = 10_000


def discount_for(cents: int) -> int:
    """Return five percent of an order that reaches the threshold."""
    if cents >= THRESHOLD_CENTS:
        return cents * 5 // 100
    return 0

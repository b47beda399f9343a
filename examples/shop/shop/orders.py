"""Orders: what a customer buys, and what it costs."""

from shop.discounts import discount_for
from shop.payment import charge


class Order:
    """A list of lines, each with a price in cents and a quantity."""

    def __init__(self, customer: str) -> None:
        self.customer = customer
        self.lines: list[tuple[str, int, int]] = []

    def add(self, name: str, cents: int, quantity: int = 1) -> None:
        """Add a line to the order."""
        self.lines.append((name, cents, quantity))

    def total(self) -> int:
        """Return the price in cents, less the discount."""
        full = sum(cents * quantity for _, cents, quantity in self.lines)
        return full - discount_for(full)


def place(order: Order) -> str:
    """Charge the customer and return the number of the receipt."""
    return charge(order.customer, order.total())

from shop.orders import Order, place


def test_large_orders_get_a_discount() -> None:
    order = Order("Ann")
    order.add("Lamp", 6_000, 2)
    assert order.total() == 11_400


def test_a_placed_order_has_a_receipt() -> None:
    order = Order("Ann")
    order.add("Bulb", 300)
    assert place(order).startswith("R-")

"""Prices of small, bulky and urgent parcels."""

from parcels.pricing import Parcel, price


def test_a_bulky_parcel_costs_more_than_its_weight():
    small, bulky = Parcel(500, (100, 100, 100)), Parcel(500, (600, 600, 600))
    assert price(bulky) > price(small)


def test_express_is_twice_the_price():
    parcel = Parcel(500, (100, 100, 100))
    assert price(parcel, express=True) == 2 * price(parcel)

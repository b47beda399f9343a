"""What sending a parcel costs."""

from dataclasses import dataclass

BASE_CENTS = 490
FUEL_SURCHARGE = 0.08


@dataclass(frozen=True)
class Parcel:
    """Weight in grams and edges in millimetres."""

    grams: int
    edges: tuple[int, int, int]


def volumetric_grams(parcel: Parcel) -> int:
    """Bulky parcels are charged by their volume: 5,000 cubic centimetres count as a kilogram."""
    length, width, height = parcel.edges
    return length * width * height // 5_000


def price(parcel: Parcel, *, express: bool = False) -> int:
    """Cents for a parcel; express doubles it, and the fuel surcharge comes on top."""
    charged = max(parcel.grams, volumetric_grams(parcel))
    cents = BASE_CENTS + charged // 100 * 12
    if express:
        cents *= 2
    return round(cents * (1 + FUEL_SURCHARGE))

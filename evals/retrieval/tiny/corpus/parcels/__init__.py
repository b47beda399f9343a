"""Parcels: where they go, what they cost, where they are."""

from parcels.pricing import price
from parcels.routing import route

__all__ = ["price", "route"]

"""The cheapest way between two depots."""

import heapq


class NoWayError(LookupError):
    """The depots are not connected."""


def route(roads: dict[str, dict[str, int]], start: str, goal: str) -> list[str]:
    """Dijkstra over the road network. Raises: NoWayError."""
    queue = [(0, start, [start])]
    seen = set()
    while queue:
        minutes, depot, path = heapq.heappop(queue)
        if depot == goal:
            return path
        if depot in seen:
            continue
        seen.add(depot)
        for neighbour, leg in roads.get(depot, {}).items():
            heapq.heappush(queue, (minutes + leg, neighbour, [*path, neighbour]))
    raise NoWayError(f"{start} does not reach {goal}")

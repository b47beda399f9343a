"""The cheapest way between two remotes."""

import heapq


class NoWayError(LookupError):
    """The remotes are not connected."""


def route(roads: dict[str, dict[str, int]], start: str, goal: str) -> list[str]:
    """Dijkstra over the road network. Raises: NoWayError."""
    queue = [(0, start, [start])]
    seen = set()
    while queue:
        minutes, remote, path = heapq.heappop(queue)
        if remote == goal:
            return path
        if remote in seen:
            continue
        seen.add(remote)
        for neighbour, leg in roads.get(remote, {}).items():
            heapq.heappush(queue, (minutes + leg, neighbour, [*path, neighbour]))
    raise NoWayError(f"{start} does not reach {goal}")

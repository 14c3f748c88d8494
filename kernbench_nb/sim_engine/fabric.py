"""The links between PEs: each a first-come, first-served resource that a message reserves along its path."""

from __future__ import annotations

from kernbench_nb.topology import Link, Route
from kernbench_nb.topology.costs import link_pass

__all__ = ["Fabric", "LinkUse", "Plan"]


class LinkUse:
    """What one link has carried so far.

    Attributes
    ----------
    link
        The link of the topology.
    wide
        Whether it is infinitely wide: nobody waits for it.
    free_ps
        When the last message that reserved it has passed.
    busy_ps, nbytes, messages
        ps that it was occupied, bytes and messages that it carried.
    """

    __slots__ = ("busy_ps", "free_ps", "link", "messages", "nbytes", "wide")

    def __init__(self, link: Link, wide: bool) -> None:
        self.link = link
        self.wide = wide
        self.free_ps = 0
        self.busy_ps = 0
        self.nbytes = 0
        self.messages = 0

    def __repr__(self) -> str:
        return f"<{self.link.name}: {self.messages} messages, {self.nbytes} B, busy {self.busy_ps} ps>"


Plan = tuple[tuple[LinkUse, int, int], ...]
"""A message's path: for each link its use, the ps that the message occupies it, and its latency in ps."""


class Fabric:
    """All links of a machine, with their reservations.

    A message reserves the links of its route when it is sent (the formula is
    `costs.link_pass`): its head goes on as soon as a link is free, its tail follows when the slowest link so far has
    passed it. Alone it takes ``sum(latency) + n / min(b)``.

    Parameters
    ----------
    wide
        Take all links as infinitely wide: latencies stay, nobody waits. It is the reference of congestion impact.

    Attributes
    ----------
    links
        The links that have carried anything, by index.
    """

    __slots__ = ("links", "wide")

    def __init__(self, wide: bool = False) -> None:
        self.wide = wide
        self.links: dict[int, LinkUse] = {}

    def plan(self, route: Route, nbytes: int) -> Plan:
        """Work out a route's reservations for messages of `nbytes`, to be kept and used again."""
        uses = [self._use(link) for link in route.links]
        return tuple((u, 0 if u.wide else u.link.busy_ps(nbytes), u.link.latency_ps) for u in uses)

    def _use(self, link: Link) -> LinkUse:
        use = self.links.get(link.index)
        if use is None:
            use = self.links[link.index] = LinkUse(link, self.wide or link.gb_per_s is None)
        return use

    def carry(self, plan: Plan, nbytes: int, t_ps: int) -> tuple[int, int]:
        """Send a message along a plan: when its first link begins to carry it, and when its tail arrives, in ps."""
        start, head, tail = t_ps, t_ps, t_ps
        first = True
        for use, busy, latency in plan:
            head, tail, end = link_pass(head, tail, 0 if use.wide else use.free_ps, busy, latency)
            if first:
                start = end - busy
                first = False
            if end > use.free_ps:
                use.free_ps = end
            use.busy_ps += busy
            use.nbytes += nbytes
            use.messages += 1
        return start, tail

    def transfer(self, route: Route, nbytes: int, t_ps: int) -> tuple[int, int]:
        """Send `nbytes` along a route at `t_ps`; an empty route has them there at once.

        Returns
        -------
        start_ps, arrival_ps
            When the first link begins to carry the message, and when its tail is at the other end.
        """
        return self.carry(self.plan(route, nbytes), nbytes, t_ps)

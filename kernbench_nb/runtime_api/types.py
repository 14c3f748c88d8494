"""Devices: what a bench runs on. There is one, the simulated machine."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

__all__ = ["Device", "resolve_device"]


@dataclass(frozen=True, slots=True)
class Device:
    """Where a bench runs.

    Attributes
    ----------
    name
        ``"sim"``: the simulated machine that the topology describes.
    """

    name: str = "sim"


def resolve_device(spec: str | Device | None = None) -> Device:
    """Find a device; None is the simulated machine.

    Raises
    ------
    ValueError
        For another name.
    """
    if isinstance(spec, Device):
        return spec
    if spec is None or spec == "sim":
        return Device()
    near = difflib.get_close_matches(str(spec), ["sim"], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise ValueError(
        f"unknown device {spec!r}{hint} The only one is 'sim', the simulated machine (also None)."
    )

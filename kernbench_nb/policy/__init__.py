"""Policies: how a launch is laid over the machine."""

from __future__ import annotations

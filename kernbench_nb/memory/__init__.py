"""Scratch, scopes, arenas and bytes: who holds which address, for how long, and what lies there."""

from kernbench_nb.memory.layout import ALIGN, TileType, round_up, tile_type
from kernbench_nb.memory.scopes import Scope
from kernbench_nb.memory.scratch import Block, ScopeWatcher, ScratchAllocator

__all__ = ["ALIGN", "Block", "Scope", "ScopeWatcher", "ScratchAllocator", "TileType", "round_up", "tile_type"]

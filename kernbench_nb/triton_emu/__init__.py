"""The kernel language: `TLContext`, the handles that it returns, and the numpy behind each operation."""

from kernbench_nb.triton_emu.handles import Handle, LoadFuture, Pointer, RecvFuture
from kernbench_nb.triton_emu.sink import Recorder, Sink
from kernbench_nb.triton_emu.tl_context import TLContext

__all__ = ["Handle", "LoadFuture", "Pointer", "Recorder", "RecvFuture", "Sink", "TLContext"]

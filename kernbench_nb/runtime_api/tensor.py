"""Tensors in HBM: a host array, cut into one shard per PE by a policy, or whole for everybody."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.dtypes import DType, resolve_dtype
from kernbench_nb.errors import DataModeError, PlacementError
from kernbench_nb.memory.store import POISON, Shard
from kernbench_nb.policy.placement.dp import DPPolicy, placement
from kernbench_nb.topology import Topology
from kernbench_nb.triton_emu import Pointer, numerics

__all__ = ["Tensor", "TensorAt", "WholeTensor", "host_array", "poisoned"]

Array = npt.NDArray[Any]


class Tensor:
    """A tensor that a policy spreads over the machine; in a kernel its pointer is this PE's shard.

    Attributes
    ----------
    name, shape, dtype
        Of the whole tensor.
    policy
        Who holds what.
    shards
        By global PE index: what that PE holds, flat and row-major.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType,
        policy: DPPolicy,
        topology: Topology,
        host: Array | None,
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.policy = policy
        self.parts = {part.pe_global: part for part in placement(shape, policy, topology)}
        self.shards: dict[int, Shard] = {}
        replicas: dict[Any, Array] = {}
        for pe, part in self.parts.items():
            local = part.shape(shape)
            data = None
            seen = (part.rows, part.cols)
            if host is not None:
                data = replicas.get(seen)
                if data is None:
                    # not a copy where rows lie together: a shard copies before it is written
                    data = replicas[seen] = host[part.index(shape)].reshape(-1)
            where = f"PE {pe}, rows {part.rows[0]}:{part.rows[1]}"
            self.shards[pe] = Shard(name, dtype, local, owner=pe, data=data, where=where, shared=True)
        self._before = {pe: shard.data for pe, shard in self.shards.items()}

    def __repr__(self) -> str:
        return f"<tensor {self.name!r} {self.dtype}{list(self.shape)} on {len(self.shards)} PEs>"

    @property
    def written(self) -> bool:
        """Whether some kernel stored to it."""
        return any(shard.data is not self._before[pe] for pe, shard in self.shards.items())

    def holder(self, pe: int, topology: Topology) -> int:
        """The PE whose shard a program on PE `pe` sees: itself, or for a replicated tensor the one that stands in.

        Raises
        ------
        PlacementError
            If the tensor is split and PE `pe` has no part of it.
        """
        if pe in self.shards:
            return pe
        policy = self.policy
        if not policy.replicated:
            raise PlacementError(
                f"tensor {self.name!r} is split over {len(self.shards)} PEs, and PE {pe} has no part of it; give it "
                "the policy of the tensor that the launch follows, or replicate it."
            )
        sip, cube, local = topology.locate(pe)
        return topology.global_pe(sip % policy.num_sips, cube % policy.num_cubes, local % policy.num_pes)

    def pointer(self, pe: int, topology: Topology) -> Pointer:
        """What a kernel on PE `pe` gets."""
        return Pointer(self.shards[self.holder(pe, topology)])

    def __add__(self, elements: int) -> TensorAt:
        """The tensor, with pointers that many elements into each shard."""
        return TensorAt(self, elements)

    def numpy(self) -> Array:
        """The whole tensor as it is now; of replicas that differ, the first PE's (data mode only).

        Raises
        ------
        DataModeError
            In timing mode.
        """
        out = np.empty(self.shape, self.dtype.np)
        for pe, part in reversed(self.parts.items()):
            data = self.shards[pe].data
            if data is None:
                raise DataModeError(f"tensor {self.name!r} has no values: this run is in timing mode.")
            out[part.index(self.shape)] = data.reshape(part.shape(self.shape))
        return out


class TensorAt:
    """A tensor as an argument of a launch, with pointers some elements into each shard.

    Attributes
    ----------
    tensor, offset
        Which, and how many elements.
    """

    __slots__ = ("offset", "tensor")

    def __init__(self, tensor: Tensor, offset: int) -> None:
        self.tensor = tensor
        self.offset = offset

    def pointer(self, pe: int, topology: Topology) -> Pointer:
        """What a kernel on PE `pe` gets."""
        return self.tensor.pointer(pe, topology) + self.offset


class WholeTensor:
    """A tensor that every PE sees whole; each access is charged to the accessing PE's own HBM slice.

    Attributes
    ----------
    name, shape, dtype
        Of the tensor.
    shard
        The one shard that all pointers share.
    """

    def __init__(self, name: str, host: Array, data: bool) -> None:
        self.name = name
        self.shape = host.shape
        self.dtype = resolve_dtype(host.dtype)
        self._before = np.ascontiguousarray(host).reshape(-1)
        self.shard = Shard(name, self.dtype, host.shape, data=self._before if data else None, shared=True)

    def pointer(self, pe: int, topology: Topology) -> Pointer:
        """What a kernel on any PE gets."""
        return Pointer(self.shard)

    @property
    def written(self) -> bool:
        """Whether some kernel stored to it."""
        return self.shard.data is not None and self.shard.data is not self._before

    def numpy(self) -> Array:
        """The tensor as it is now (data mode only).

        Raises
        ------
        DataModeError
            In timing mode.
        """
        if self.shard.data is None:
            raise DataModeError(f"tensor {self.name!r} has no values: this run is in timing mode.")
        return self.shard.data.reshape(self.shape).copy()


def host_array(values: Any, dtype: Any, shape: Iterable[int] | None = None) -> tuple[Array, DType]:
    """An array of a known dtype, converted with one rounding if `dtype` asks for it."""
    array = np.asarray(values)
    to = resolve_dtype(array.dtype if dtype is None else dtype)
    if array.dtype != to.np:
        out = np.empty(array.shape, to.np)
        numerics.convert(out, array)
        array = out
    return (array if shape is None else array.reshape(tuple(shape))), to


def poisoned(shape: tuple[int, ...], dtype: DType) -> Array:
    """An array that nobody has written: NaN in every float type."""
    out = np.empty(shape, dtype.np)
    out.view(np.uint8).fill(POISON) if out.size and out.ndim else out.fill(0)
    return out

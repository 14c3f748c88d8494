"""The context of a bench: tensors by policy, and launches on the PEs that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernbench_nb.dtypes import resolve_dtype
from kernbench_nb.errors import PlacementError
from kernbench_nb.policy.placement.dp import DPPolicy
from kernbench_nb.runtime_api.launch import Grid, members, run_kernel
from kernbench_nb.runtime_api.record import Recorder
from kernbench_nb.runtime_api.tensor import Array, Tensor, TensorAt, host_array, poisoned
from kernbench_nb.runtime_api.types import Device
from kernbench_nb.sim_engine import GraphEngine
from kernbench_nb.topology import Topology

__all__ = ["BenchContext"]


class BenchContext:
    """What a bench function gets: ``ctx.zeros``, ``ctx.empty``, ``ctx.tensor``, ``ctx.launch``.

    Attributes
    ----------
    engine, spec, device
        The engine, its topology, and the device.
    tensors
        All tensors made so far, by name.
    kernel
        The kernel of the last launch, or None.
    scratch_checks, recorder
        Safety level of the launches, and who keeps values.
    """

    def __init__(
        self,
        engine: GraphEngine,
        device: Device,
        *,
        scratch_checks: str = "raise",
        recorder: Recorder | None = None,
    ) -> None:
        self.engine = engine
        self.device = device
        self.tensors: dict[str, Tensor] = {}
        self.kernel: Callable[..., Any] | None = None
        self.scratch_checks = scratch_checks
        self.recorder = recorder

    @property
    def spec(self) -> Topology:
        """The topology."""
        return self.engine.topology

    # -- tensors -----------------------------------------------------------------------------------------------

    def zeros(
        self, shape: Sequence[int], *, dtype: Any = "f16", dp: DPPolicy | None = None, name: str | None = None
    ) -> Tensor:
        """A tensor of zeros."""
        to = resolve_dtype(dtype)
        return self._make(tuple(shape), to, dp, name, lambda: np.zeros(tuple(shape), to.np))

    def empty(
        self, shape: Sequence[int], *, dtype: Any = "f16", dp: DPPolicy | None = None, name: str | None = None
    ) -> Tensor:
        """A tensor that nobody has written: poison, NaN in floats."""
        to = resolve_dtype(dtype)
        return self._make(tuple(shape), to, dp, name, lambda: poisoned(tuple(shape), to))

    def tensor(
        self, values: Any, *, dtype: Any = None, dp: DPPolicy | None = None, name: str | None = None
    ) -> Tensor:
        """A tensor with given values, converted to `dtype` if that is given.

        An array is not copied before a kernel writes to the tensor: change it only after the last launch.
        """
        array, to = host_array(values, dtype)
        return self._make(array.shape, to, dp, name, lambda: array)

    def _make(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        dp: DPPolicy | None,
        name: str | None,
        values: Callable[[], Array],
    ) -> Tensor:
        name = name or f"tensor{len(self.tensors)}"
        if name in self.tensors:
            raise ValueError(f"a tensor named {name!r} exists already; names say which is which in the log.")
        host = values() if self.engine.enable_data else None
        tensor = self.tensors[name] = Tensor(name, shape, dtype, dp or DPPolicy(), self.spec, host)
        return tensor

    # -- launches ----------------------------------------------------------------------------------------------

    def launch(
        self, name: str, kernel: Callable[..., Any], *args: Any, _auto_dim_remap: bool = False, **more: Any
    ) -> None:
        """Run a kernel on the PEs of its tensors' policies.

        Parameters
        ----------
        name
            What the launch is called.
        kernel
            The kernel; a tensor argument becomes a pointer to this PE's shard, and ``ptr + n`` counts elements.
        args, more
            Its arguments.
        _auto_dim_remap
            Replace each scalar that equals a sharded global dimension by this PE's local one.

        Raises
        ------
        PlacementError
            If policies neither agree nor are replicated, or a scalar to be replaced is also an unsharded dimension.
        """
        given = (*args, *more.values())
        tensors = [
            a.tensor if isinstance(a, TensorAt) else a for a in given if isinstance(a, (Tensor, TensorAt))
        ]
        grid = launch_grid(tensors)
        spec = self.spec
        shared = {
            holder
            for tensor in tensors
            for pe in members(spec, grid)
            if (holder := tensor.holder(pe, spec)) != pe
        }

        def arguments(pe: int) -> tuple[list[Any], dict[str, Any]]:
            meanings = dimensions(tensors, pe) if _auto_dim_remap else {}

            def put(value: Any) -> Any:
                if isinstance(value, (Tensor, TensorAt)):
                    return value.pointer(pe, spec)
                if isinstance(value, int) and not isinstance(value, bool) and value in meanings:
                    return local_extent(value, meanings[value], pe)
                return value

            return [put(a) for a in args], {k: put(v) for k, v in more.items()}

        self.kernel = kernel
        run_kernel(
            self.engine,
            kernel,
            arguments,
            grid,
            shared_slices=frozenset(shared),
            scratch_checks=self.scratch_checks,
            recorder=self.recorder,
        )


def launch_grid(tensors: Sequence[Tensor]) -> Grid:
    """The PEs that a launch runs on.

    Split tensors must agree on SIPs, cubes and PEs; replicated ones follow (a PE beyond them reads a replica of
    another). With none split, the largest replicated one decides.

    Raises
    ------
    PlacementError
        Naming two tensors that do not agree.
    """
    if not tensors:
        raise PlacementError(
            "a launch needs at least one tensor: the PEs that it runs on are those that hold it."
        )

    def grid_of(tensor: Tensor) -> Grid:
        policy = tensor.policy
        return policy.num_sips, policy.num_cubes, policy.num_pes

    split = [t for t in tensors if not t.policy.replicated]
    for other in split[1:]:
        if grid_of(other) != grid_of(split[0]):
            raise PlacementError(
                f"tensors {split[0].name!r} and {other.name!r} are split over different PEs: (SIPs, cubes, PEs) "
                f"{grid_of(split[0])} and {grid_of(other)}. Give them the same numbers, or replicate one."
            )
    largest = max((grid_of(t) for t in tensors), key=lambda g: g[0] * g[1] * g[2])
    if not split:
        return largest
    grid = grid_of(split[0])
    if any(n > m for n, m in zip(largest, grid, strict=True)):
        wider = next(t for t in tensors if grid_of(t) == largest)
        raise PlacementError(
            f"tensor {wider.name!r} is replicated over (SIPs, cubes, PEs) {largest}, more than {grid} over which "
            f"{split[0].name!r} is split: the PEs beyond would have no part of it. Give both the same numbers."
        )
    return grid


Meaning = tuple[int, bool]
"""A local extent, and whether the dimension is sharded."""


def dimensions(tensors: Sequence[Tensor], pe: int) -> dict[int, dict[Meaning, str]]:
    """What each global extent could mean on one PE, each with the name of a tensor where it does."""
    out: dict[int, dict[Meaning, str]] = {}
    for tensor in tensors:
        shape = tensor.shape
        shapes = [part.shape(shape) for part in tensor.parts.values()]
        local = tensor.parts[pe].shape(shape) if pe in tensor.parts else shape
        for axis, n in enumerate(shape):
            sharded = any(other[axis] != n for other in shapes)
            out.setdefault(n, {}).setdefault((local[axis], sharded), tensor.name)
    return out


def local_extent(value: int, meanings: dict[Meaning, str], pe: int) -> int:
    """The local extent that a scalar stands for; the scalar itself where no dimension of that extent is sharded.

    Raises
    ------
    PlacementError
        If it could be more than one, naming the scalar and a tensor for each.
    """
    if len(meanings) == 1:
        ((local, _),) = meanings
        return local
    if not any(sharded for _, sharded in meanings):
        return value
    # sharded ones first
    what = " and ".join(
        f"a sharded dimension of {name!r} ({local} on PE {pe})"
        if sharded
        else f"an unsharded one of {name!r}"
        for (local, sharded), name in sorted(meanings.items(), key=lambda item: not item[0][1])
    )
    raise PlacementError(
        f"_auto_dim_remap: the scalar {value} is {what}, so it cannot be told which is meant. Pass local sizes "
        "yourself, with _auto_dim_remap=False."
    )

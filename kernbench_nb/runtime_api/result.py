"""`RunResult`: everything that a run gives back, and all that analysis, plots, widgets and exports take."""

from __future__ import annotations

import html
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernbench_nb._version import __version__
from kernbench_nb.errors import DataModeError, KernbenchError
from kernbench_nb.runtime_api.checking import Reference, compare
from kernbench_nb.runtime_api.exporters import exporter
from kernbench_nb.runtime_api.portable import portable, portable_error, portable_value
from kernbench_nb.runtime_api.text import bytes_text, grouped, percent_text, rate_text, time_text
from kernbench_nb.runtime_api.usage import Roofline, Usage
from kernbench_nb.sim_engine.memory_log import MemoryLog
from kernbench_nb.sim_engine.op_log import OpLog
from kernbench_nb.sim_engine.rows import Rows
from kernbench_nb.sim_engine.tile_log import TileLog
from kernbench_nb.sim_engine.trace import Trace
from kernbench_nb.topology import Topology

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Completion", "RecordedValue", "Reference", "RunResult"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Completion:
    """How a run ended.

    Attributes
    ----------
    ok
        Whether every kernel ran to its end.
    error
        What stopped it, or None.
    """

    ok: bool = True
    error: BaseException | None = None

    def __str__(self) -> str:
        return "ok" if self.error is None else f"{type(self.error).__name__}: {_first_line(self.error)}"


@dataclass(frozen=True, slots=True, eq=False)
class RecordedValue:
    """A tile's values at the end of a scope, kept by ``record="tiles"``.

    Attributes
    ----------
    pe
        Global index.
    tile, scope
        Label of the scope at whose end it was copied, and the scope's number in ``run.op_log.rows.scopes``.
    row
        The row that allocated it; `kernbench_nb.sim_engine.memory_log.LiveBlock.born` of the same block.
    name
        Its name, or None.
    values
        A copy, read-only.
    """

    pe: int
    tile: str
    scope: int
    row: int
    name: str | None
    values: Array


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RunResult:
    """What a run gives back. Frozen; what is expensive is worked out when it is first asked for.

    It survives a pickle, as process pools need it, but for what belongs to its process: `engine` and `kernel`, and with
    them `check` and running again.

    Attributes
    ----------
    completion
        Whether it ran to its end, and what stopped it if not.
    topology
        The machine.
    kernel
        The kernel function of the (last) launch, or None where there is none, as in a result that was loaded.
    name
        What views call the run: the kernel's name.
    params
        Arguments of the entry point.
    data
        Whether tiles had values; False is timing mode.
    outputs
        Tensors after the run, by name; empty in timing mode.
    counters
        What the kernels counted with ``tl.count``, over all PEs.
    warnings
        What was odd but no error, such as a load that nobody waited for.
    values
        Recorded values, if ``record="tiles"`` asked for them.
    versions
        Of the package, Python and numpy.
    engine
        The engine that ran it (``run.engine.op_log``), or None in a result that was loaded.
    """

    completion: Completion
    topology: Topology
    kernel: Callable[..., Any] | None = None
    name: str = "run"
    params: Mapping[str, Any] = field(default_factory=dict)
    data: bool = False
    outputs: Mapping[str, Array] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    values: tuple[RecordedValue, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    engine: Any = None
    given_output: Array | None = None
    given_lse: Array | None = None
    given_log: Rows | tuple[Trace, ...] = ()
    reference: Reference | None = None
    rerun: Callable[..., RunResult] | None = None

    @classmethod
    def of(
        cls,
        engine: Any,
        *,
        kernel: Callable[..., Any] | None = None,
        error: BaseException | None = None,
        params: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Array] | None = None,
        output: Array | None = None,
        lse: Array | None = None,
        reference: Reference | None = None,
        rerun: Callable[..., RunResult] | None = None,
    ) -> RunResult:
        """The result of what an engine has run so far.

        Parameters
        ----------
        engine
            Has ``traces``, ``topology`` and ``enable_data``. What it runs later does not change this result.
        kernel, params
            What ran, with which arguments.
        error
            What stopped it, or None.
        outputs, output, lse
            Tensors after the run; which of them is the output, and the log-sum-exp, in the layout of the entry point.
        reference
            What `check` compares with.
        rerun
            Called with changed arguments (``wide_links=``, ``data=``, ``record=``, ``lse=``), runs the same again.
        """
        traces = tuple(engine.traces)
        counters: dict[str, int] = {}
        for trace in traces:
            for key, count in trace.counters.items():
                counters[key] = counters.get(key, 0) + count
        return cls(
            completion=Completion(error is None, error),
            topology=engine.topology,
            kernel=kernel,
            name=getattr(kernel, "__name__", "run"),
            params=MappingProxyType(dict(params or {})),
            data=bool(engine.enable_data),
            outputs=MappingProxyType({key: _read_only(value) for key, value in (outputs or {}).items()}),
            counters=MappingProxyType(counters),
            warnings=tuple(text for trace in traces for text in trace.warnings),
            values=_recorded(traces),
            versions=MappingProxyType(
                {"kernbench_nb": __version__, "python": platform.python_version(), "numpy": np.__version__}
            ),
            engine=engine,
            given_output=None if output is None else _read_only(output),
            given_lse=None if lse is None else _read_only(lse),
            given_log=traces,
            reference=reference,
            rerun=rerun,
        )

    # -- to another process ------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """What goes into a pickle: all that views look at. The engine, the kernel and the reference stay behind."""
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("params", "outputs", "counters", "versions"):
            state[name] = dict(state[name])
        state["params"] = {name: portable_value(value) for name, value in state["params"].items()}
        state["completion"] = Completion(self.completion.ok, portable_error(self.completion.error))
        left = dict.fromkeys(("engine", "kernel", "reference", "rerun"))
        return {**state, **left, "given_log": portable(self.op_log.rows)}

    def __copy__(self) -> RunResult:
        """Itself: nothing about a run changes."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> RunResult:
        """Itself: nothing about a run changes."""
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read a pickle; arrays are read-only again."""
        for name in ("params", "counters", "versions"):
            state[name] = MappingProxyType(state[name])
        state["outputs"] = MappingProxyType({key: _read_only(a) for key, a in state["outputs"].items()})
        for name in ("given_output", "given_lse"):
            state[name] = None if state[name] is None else _read_only(state[name])
        state["values"] = tuple(replace(value, values=_read_only(value.values)) for value in state["values"])
        self.__dict__.update(state)

    # -- logs and frames ---------------------------------------------------------------------------------------

    @cached_property
    def op_log(self) -> OpLog:
        """All operations, list-like, in order of (start_ps, pe, issue); see `OpRecord`."""
        given, engine = self.given_log, self.engine
        if engine is not None and not isinstance(given, Rows) and len(engine.traces) == len(given):
            log: OpLog = engine.op_log  # decoded once, whoever asks first
            return log
        return OpLog(given)

    @cached_property
    def memory_log(self) -> MemoryLog:
        """The allocation timeline, list-like; see `MemoryEvent`. Also gives the live blocks at any row."""
        return MemoryLog(self.op_log.rows)

    @cached_property
    def tile_log(self) -> TileLog:
        """Tiles and skipped tiles as numpy columns."""
        return TileLog(self.memory_log)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The operation log as a pandas frame; see `kernbench_nb.runtime_api.frames.op_frame`."""
        from kernbench_nb.runtime_api.frames import op_frame

        return op_frame(self.op_log, self.topology)

    @cached_property
    def memory(self) -> pd.DataFrame:
        """The allocation timeline as a pandas frame; see `kernbench_nb.runtime_api.frames.memory_frame`."""
        from kernbench_nb.runtime_api.frames import memory_frame

        return memory_frame(self.memory_log)

    @cached_property
    def tiles(self) -> pd.DataFrame:
        """One row a tile; see `kernbench_nb.runtime_api.frames.tile_frame`."""
        from kernbench_nb.runtime_api.frames import tile_frame

        return tile_frame(self.tile_log)

    @cached_property
    def skipped(self) -> pd.DataFrame:
        """One row a tile that was never loaded; see `kernbench_nb.runtime_api.frames.skipped_frame`."""
        from kernbench_nb.runtime_api.frames import skipped_frame

        return skipped_frame(self.tile_log)

    # -- values ------------------------------------------------------------------------------------------------

    @property
    def output(self) -> Array:
        """The output, in the layout of the entry point.

        Raises
        ------
        DataModeError
            In timing mode, and where no output is known to be the one.
        """
        if self.given_output is not None:
            return self.given_output
        if self.data and self.completion.ok and len(self.outputs) == 1:
            return next(iter(self.outputs.values()))
        raise DataModeError(self._no_output())

    @cached_property
    def lse(self) -> Array | None:
        """Log-sum-exp of the scaled scores, base e; None if the kernel has none.

        A kernel that was not asked to write it runs once more, with ``lse=True``.
        """
        if self.given_lse is not None:
            return self.given_lse
        if not (self.data and self.completion.ok and self.rerun is not None and "lse" in self.params):
            return None
        return self.rerun(lse=True, record=None).given_lse

    def check(self, tol: float | None = None) -> float:
        """Compare the output with the float64 reference: ``|error| <= tol * (1 + |reference|)``.

        Parameters
        ----------
        tol
            By default the run's own, ``run.reference.tol``: 2e-3 for f16 and fp8, 1.6e-2 for bf16, 1e-5 for f32. It is
            wider for `kb.naive`, which stores its scores in 16 bits: by ``2**-11 * max |S|`` in f16 (ADR-0003).

        Returns
        -------
        float
            The worst ``|error| / (1 + |reference|)``; of lse too if the kernel wrote it.

        Raises
        ------
        CheckError
            If an entry is beyond the tolerance, naming the worst place, both values and the tolerance.
        DataModeError
            If the run has no output.
        KernbenchError
            If it has no reference.
        """
        if self.given_output is None:
            raise DataModeError(self._no_output())
        if self.reference is None:
            raise KernbenchError(
                f"{self.name} has no float64 reference, so there is nothing to check against; compare run.output or "
                "run.outputs with your own."
            )
        limit = self.reference.tol if tol is None else tol
        wanted, lse = self.reference.values()
        tainted = None if self.reference.tainted is None else self.reference.tainted()
        worst = compare("output", self.given_output, wanted, limit, tainted)
        if self.given_lse is not None:
            worst = max(worst, compare("lse", self.given_lse, lse, limit))
        return worst

    def _no_output(self) -> str:
        if not self.completion.ok:
            return f"{self.name} did not run to its end ({self.completion}), so it has no output."
        if not self.data:
            return f"{self.name} ran in timing mode, where tiles have no values; run it with data=True for an output."
        if self.outputs:
            return f"which tensor is the output of {self.name}? run.outputs has {', '.join(self.outputs)}."
        return f"{self.name} has no tensors."

    # -- numbers -----------------------------------------------------------------------------------------------

    @cached_property
    def usage(self) -> Usage:
        """Sums over the run: busy times by PE and engine, bytes, FLOPs."""
        return Usage(self.op_log.rows, self.topology)

    @property
    def pes(self) -> tuple[int, ...]:
        """Global indices of the PEs that took part."""
        return self.usage.pes

    @property
    def makespan_ps(self) -> int:
        """From 0 to the end of the last kernel and the last result, in ps."""
        return self.usage.makespan_ps

    @property
    def makespan_ns(self) -> float:
        """The makespan in ns."""
        return self.makespan_ps / 1000

    @property
    def peak_scratch(self) -> int:
        """High-water mark of the scratch in bytes, of the PE where it is highest."""
        return self.memory_log.peak

    @property
    def peak_scratch_by_pe(self) -> dict[int, int]:
        """High-water mark of each PE, in bytes."""
        return dict(self.memory_log.peak_by_pe)

    @property
    def peak_by_kind(self) -> dict[str, int]:
        """By kind of scope (``tile``, ``merge``, ``finish``, ...): the highest cursor while one was open, in bytes."""
        return dict(self.memory_log.peak_by_kind)

    @property
    def persistent_bytes(self) -> int:
        """Bytes of the persistent arena, of the PE where they are most."""
        return self.memory_log.persistent_bytes

    @property
    def hbm_bytes(self) -> int:
        """Bytes read from and written to HBM."""
        return self.usage.hbm_bytes

    @property
    def flops(self) -> int:
        """2*m*n*k of all products."""
        return self.usage.flops

    @property
    def busy(self) -> dict[str, float]:
        """Busy share of each engine, dma, gemm, math and ipc: the mean over the PEs that took part."""
        return self.usage.busy

    @property
    def hbm_gb_per_s(self) -> float:
        """HBM bandwidth achieved over the makespan."""
        return self.usage.hbm_gb_per_s

    @property
    def hbm_peak_gb_per_s(self) -> float:
        """Peak HBM bandwidth of the PEs that took part."""
        return self.usage.hbm_peak_gb_per_s

    @property
    def mac_utilisation(self) -> float:
        """Share of the MACs that worked; the GEMM engine's busy share is another thing, see `busy`."""
        return self.usage.mac_utilisation

    @cached_property
    def roofline(self) -> Roofline:
        """Intensity, roof, and the three terms of which one binds."""
        return self.usage.roofline()

    @property
    def bound(self) -> str:
        """What binds: ``compute``, ``bandwidth`` or ``latency``."""
        return self.roofline.binds

    def congestion_impact(self) -> float:
        """Makespan over the makespan with infinitely wide links, minus 1.

        Runs once more in timing mode, with latencies and without bandwidth limits on links.

        Raises
        ------
        KernbenchError
            If this result cannot be run again.
        """
        return self._congestion

    @cached_property
    def _congestion(self) -> float:
        if self.rerun is None:
            raise KernbenchError(
                f"congestion impact of {self.name} needs a second run with infinitely wide links, and this result does "
                "not know how to run again (it was loaded, or made by run_bench). Run it by kb.decode, kb.prefill, "
                "kb.bench or kb.launch, or give GraphEngine(topology, wide_links=True) to run_bench and compare."
            )
        wide = self.rerun(wide_links=True, data=False, record=None).makespan_ps
        return self.makespan_ps / wide - 1 if wide else 0.0

    # -- files -------------------------------------------------------------------------------------------------

    def to_html(self, path: str | Path, **where: Any) -> Path:
        """Write the stepper of this run as one self-contained page: no network, no server, opens from disk.

        Parameters
        ----------
        path
            Where to.
        where
            ``pe=``, ``tile=``, ``at=``: where it opens, as in `kb.step`.
        """
        written: Path = exporter("to_html")(self, path, **where)
        return written

    def to_chrome_trace(self, path: str | Path) -> Path:
        """Write the run as Chrome's trace-event JSON, which Perfetto (ui.perfetto.dev) opens."""
        written: Path = exporter("to_chrome_trace")(self, path)
        return written

    # -- how it shows itself -----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        if not self.completion.ok:
            error = type(self.completion.error).__name__
            return (
                f"<RunResult {self.name}: {error} at {time_text(self.makespan_ps)}, {self._scratch_text()}>"
            )
        return (
            f"<RunResult {self.name}: {time_text(self.makespan_ps)} on {_many(len(self.pes), 'PE')}, "
            f"{self._scratch_text()}, HBM {bytes_text(self.hbm_bytes)}, {self._bound_text()}>"
        )

    def _repr_html_(self) -> str:
        usage, roof = self.usage, self.roofline
        rate = f"{rate_text(usage.hbm_gb_per_s)} of {rate_text(usage.hbm_peak_gb_per_s)} GB/s"
        terms = (("compute", roof.compute_ps), ("bandwidth", roof.bandwidth_ps), ("latency", roof.latency_ps))
        lines = [
            ("makespan", f"{time_text(self.makespan_ps)} on {_many(len(self.pes), 'PE')}"),
            ("peak scratch", self._scratch_text().removeprefix("peak scratch ")),
            ("HBM", f"{bytes_text(self.hbm_bytes)}, {rate}"),
            ("busy", ", ".join(f"{engine} {percent_text(share)}" for engine, share in usage.busy.items())),
            ("products", f"{grouped(self.flops)} FLOP, {percent_text(usage.mac_utilisation)} of the MACs"),
            ("bound", f"{self._bound_text()}: {', '.join(f'{what} {time_text(ps)}' for what, ps in terms)}"),
        ]
        if not self.completion.ok:
            lines.insert(0, ("stopped by", str(self.completion)))
        if self.warnings:
            lines.append(
                ("warnings", "; ".join(self.warnings[:3]) + (" ..." if len(self.warnings) > 3 else ""))
            )
        body = "".join(
            f'<tr><th style="text-align:left">{html.escape(what)}</th>'
            f'<td style="text-align:left">{html.escape(value)}</td></tr>'
            for what, value in lines
        )
        title = html.escape(f"{self.name} on {self.topology.name}")
        return f'<table><caption style="text-align:left">{title}</caption><tbody>{body}</tbody></table>'

    def _scratch_text(self) -> str:
        limit = self.topology.scratch_bytes
        share = f" ({percent_text(self.peak_scratch / limit)})" if limit else ""
        return f"peak scratch {bytes_text(self.peak_scratch)} of {bytes_text(limit)}{share}"

    def _bound_text(self) -> str:
        binds = self.bound
        return f"compute ({self.roofline.compute_engine}) binds" if binds == "compute" else f"{binds} binds"


def _recorded(traces: Sequence[Trace]) -> tuple[RecordedValue, ...]:
    """Recorded values, with rows and scopes numbered over the whole run: by PE, launch after launch."""
    found: list[RecordedValue] = []
    first = scopes = 0
    for trace in sorted(traces, key=lambda t: t.pe):
        for scope, row, name, values in trace.values:
            label = trace.scopes[scope].label
            found.append(
                RecordedValue(trace.pe, label, scopes + scope, first + row, name or None, _read_only(values))
            )
        first += len(trace)
        scopes += len(trace.scopes)
    return tuple(found)


def _read_only(array: Array) -> Array:
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

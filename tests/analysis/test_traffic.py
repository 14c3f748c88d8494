"""Traffic against the formulas of the algorithms."""

from __future__ import annotations

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.analysis import traffic


def head(n: int = 96, d: int = 16) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal((n, 1, d)).astype(np.float16) for _ in range(3)]


def test_the_naive_kernel_writes_and_reads_its_notes() -> None:
    n, d = 96, 16
    table = traffic(kb.naive(*head(n, d), rows=32))
    assert table.index.tolist() == ["K", "Q", "S", "P", "V", "O"]
    assert table["read_bytes"].to_dict() == {
        "K": 2 * n * d, "Q": 2 * n * d, "S": 2 * n * n, "P": 2 * n * n, "V": 2 * n * d, "O": 0,
    }  # fmt: skip
    assert table["write_elements"].to_dict() == {"K": 0, "Q": 0, "S": n * n, "P": n * n, "V": 0, "O": n * d}
    assert table["bytes"].sum() == 2 * (4 * n * n + 4 * n * d)


def test_the_seconds_loop_order_reads_keys_once_for_each_query_block() -> None:
    n, d = 96, 16
    table = traffic(kb.flash(*head(n, d), tile_q=32, tile_kv=48))
    assert table["elements"].sum() == (2 + 2 * 3) * n * d
    assert table.loc["K", "read_elements"] == 3 * n * d
    assert (table["bytes"] == table["read_bytes"] + table["write_bytes"]).all()


def test_by_pe_and_by_tile_add_up_to_the_same() -> None:
    run = kb.decode(*(x[-1:] if i == 0 else x for i, x in enumerate(head())), pes=4, tile=16)
    by_pe, by_tile = traffic(run, by="pe"), traffic(run, by="tile")
    assert by_pe.index.tolist() == [0, 1, 2, 3]
    assert by_pe["bytes"].sum() == by_tile["bytes"].sum() == run.hbm_bytes
    assert by_tile.loc[(2, "tile 1"), "read_bytes"] == 2 * 8 * 16 * 2  # 24 keys a PE: the second tile has 8


def test_a_run_without_traffic_gives_an_empty_table() -> None:
    table = traffic(kb.launch(lambda a, *, tl: None, np.zeros(4, np.float32)))
    assert len(table) == 0
    assert table["bytes"].dtype == np.int64


def test_another_grouping_is_refused() -> None:
    with pytest.raises(ValueError, match="by must be one of 'tensor', 'pe', 'tile', got 'cube'"):
        traffic(kb.launch(lambda a, *, tl: None, np.zeros(4, np.float32)), by="cube")

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
    with pytest.raises(ValueError, match="by must be one of 'tensor', 'pe', 'tile', 'reason', got 'cube'"):
        traffic(kb.launch(lambda a, *, tl: None, np.zeros(4, np.float32)), by="cube")


# -- reasons -----------------------------------------------------------------------------------------------------------


def by_reason(run: kb.RunResult, column: str = "elements") -> list[int]:
    table = traffic(run, by="reason")
    assert table.index.tolist() == ["news", "again", "notes"]
    assert table["bytes"].sum() == run.hbm_bytes
    return [int(n) for n in table[column]]


def test_the_naive_kernel_takes_notes() -> None:
    n, d = 96, 16
    for rows in (32, 96, 50):
        assert by_reason(kb.naive(*head(n, d), rows=rows)) == [4 * n * d, 0, 4 * n * n]


def test_the_course_quotes_these_bytes() -> None:
    """Course 01: notes are N / (N + d) of all bytes, and all is 1 + N/d times the news."""
    q, k, v = kb.sample_attention()
    run = kb.naive(q[:, 4:5], k[:, 1:2], v[:, 1:2], data=False)
    news, again, notes = by_reason(run, "bytes")
    assert (news, again, notes) == (163_328, 0, 814_088)
    assert news + notes == 977_416
    assert notes * (319 + 64) == 977_416 * 319
    assert news * (64 + 319) == 977_416 * 64


def test_flash_reads_again_what_it_did_not_keep() -> None:
    n, d = 96, 16
    assert by_reason(kb.flash(*head(n, d), tile_q=32, tile_kv=48)) == [4 * n * d, 2 * 2 * n * d, 0]
    assert by_reason(kb.flash(*head(n, d), tile_q=96, tile_kv=48)) == [4 * n * d, 0, 0]


def test_the_first_loop_order_writes_its_state_down() -> None:
    """Each pass but the last writes O, m and l for the next one to read; the first reads what the host put there."""
    n, d, passes = 96, 16, 2
    state = n * d + 2 * n
    news, again, notes = by_reason(kb.flash(*head(n, d), tile_q=32, tile_kv=48, order="fa1"))
    assert again == n * d * (passes - 1), "Q"
    assert notes == 2 * state * (passes - 1)
    assert news == 3 * n * d + 2 * state


def test_every_pe_has_its_own_news() -> None:
    q, k, v = head()
    run = kb.decode(q[-1:], k, v, pes=4, tile=16)
    assert by_reason(run)[1:] == [0, 0]


def test_in_place_is_no_note_and_writing_twice_is_in_vain() -> None:
    def kernel(a, *, tl):  # type: ignore[no-untyped-def]
        for at in (0, 8):
            tl.store(a + at, tl.load(a + at, (8,)) + 1.0)
        tl.store(a, tl.zeros((8,)))

    assert by_reason(kb.launch(kernel, np.zeros(16, np.float32))) == [16 + 8 + 8, 8, 0]


def test_what_is_read_back_twice_is_a_note_twice() -> None:
    def kernel(a, b, *, tl):  # type: ignore[no-untyped-def]
        tl.store(b, tl.load(a, (8,)))
        tl.load(b, (8,))
        tl.load(b, (8,))

    assert by_reason(kb.launch(kernel, np.zeros(8, np.float32), np.zeros(8, np.float32))) == [8, 0, 24]

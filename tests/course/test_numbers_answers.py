"""Exercises whose answer is a number: the right one comes from runs, and each wrong one has its own idea."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.course import scratch, traffic
from kernbench_nb.course.scratch import BUDGET
from kernbench_nb.course.traffic import tiles_that_run

MIB = 1 << 20
RIGHT = {
    "00": 55_440,
    "01": 1_216,
    "03": 12,
    "04a": 95,
    "05": 64,
    "06": 58,
    "07a": 76,
    "07b": 304,
    "08": 881,
}
CHECKS = {**scratch.CHECKS, **traffic.CHECKS}

IDEAS = [
    ("00", 77_040, "You scaled the persistent part too; which blocks do not have the tile's length?"),
    ("00", 60_840, "That is 1.5 times the peak of tile 32; take the fixed part off first."),
    ("00", 44_640, "That is 48 keys at 930 B each; what lies in the scratch with no key at all?"),
    ("00", 70_320, "You added 48 keys to a peak that has 16 in it; how many are new?"),
    ("00", 40_752, "That is a PE of eight, which owns 40 keys: ask one PE."),
    ("00", 54.1, "Bytes, please: the persistent arena alone is 3 552 B."),
    (
        "00",
        55_441,
        "Two points fix a straight line: what does one key more cost, and what is left at no keys?",
    ),
    ("01", 64, "There S is as big as Q: the growth is 3."),
    ("01", 186, "That is the ratio to the least, 1 + N / d; "),
    ("01", 319, "It is 3.67 there; write the growth as a function of N / d."),
    ("01", 10**6, "True, but it passes 3.9 well before."),
    ("01", 1_215, "The growth there is 3.8999; write it as a function of N / d."),
    ("01", 1_217, "True, the growth there is 3.9001; but it passes 3.9 before."),
    ("01", 0, "A text has one token at least."),
    ("03", 11, "The first tile is cheaper; price it alone."),
    ("03", 13, "That divides by the price of the first tile only."),
    ("03", 11.9, "Only whole tiles count."),
    ("03", 96, "Those are keys; the question asks for tiles."),
    ("03", 5, "It is more. Run one tile and two, un-scoped: "),
    ("03", 47, "It is fewer. Run one tile and two, un-scoped: "),
    ("04a", 111, "That is with out=; first the plain fold."),
    ("04a", 99, "What lies below the save-point?"),
    ("04a", 107, "10 800 B do not depend on the tile."),
    ("04a", 130, "K and V are not all: the scores' arrays are 18 bytes a score."),
    ("04a", 96.77, "Only whole keys count."),
    ("04a", 94, "That fits, at 98 256 B; a larger one does too."),
    ("04a", 96, "That needs 100 080 B: "),
    ("04a", 0, "That fits, at 3 552 B; "),
    ("05", 256, "There S alone fills M; it may take a quarter."),
    ("05", 32, "That is the break-even with the plain kernel."),
    ("05", 4_096, "Those are elements of S; the question asks for rows."),
    ("05", 65, "S has 4 160 elements there, and may take 4 096."),
    ("05", 63, "S has 4 032 elements there, less than the quarter that it may take."),
    ("06", 10, "You anchored the mask at the first key; the newest query may see all 1 024."),
    ("06", 34, "(T + 1) / 2T is for square attention."),
    ("06", 40, "(T + 1) / 2T is for square attention."),
    ("06", 64, "Which tiles does query 0 of the chunk not see?"),
    ("06", 57, "The first query of the chunk has 768 keys before it: "),
    ("07a", 152, "That is G = 8."),
    ("07a", 80, "20 G gives 20/21 of G, which is more than asked."),
    ("07a", 4_096, "Far beyond; solve for S."),
    ("07a", 75, "That is 94.94 % of G. Divide the intensity S G / (S + G) by G."),
    ("07a", 77, "Far enough, with 95.06 % of G; which is the first? Solve for S."),
    ("07b", 76, "That is G = 4 again."),
    ("07b", 152, "That is G = 8."),
    ("07b", 320, "20 G gives 20/21 of G, which is more than asked."),
    ("07b", -1, "A context has one key at least."),
    ("08", 1_569, "That one has no room for two more of K and V."),
    ("08", 784, "Only K and V double, the scores do not."),
    ("08", 1_024, "That is the largest power of two without prefetch."),
    ("08", 613, "K and V stand below the save-point now, and no more above it."),
    ("08", 897, "Nearly: "),
    (
        "08",
        887,
        "Nearly: some blocks have no key in them; which stand below the save-point, and which above?",
    ),
    ("08", 898, "That is too large: two K and two V buffers are persistent now, "),
    ("08", 880, "That fits, and a larger one does too."),
    ("08", 882, "Nearly: some blocks have no key in them; "),
]


def test_every_number_is_looked_at() -> None:
    assert set(CHECKS) == set(RIGHT)
    assert {(id, answer) for id, answer, _ in IDEAS} >= {
        (id, answer) for id, check in CHECKS.items() for answer in check.traps
    }


@pytest.mark.parametrize(("id", "answer"), RIGHT.items())
@pytest.mark.parametrize("form", [int, float, np.int64, "{:_}".format, Fraction])
def test_the_right_number(capsys: pytest.CaptureFixture[str], id: str, answer: int, form: Any) -> None:
    kb.check_answer(id, form(answer))
    line = capsys.readouterr().out
    assert line.startswith(f"exercise {id}: right. ")
    assert line.endswith(".\n")
    assert line.count("\n") == 1


@pytest.mark.parametrize(("id", "answer", "idea"), IDEAS)
def test_a_wrong_number_has_its_own_idea(id: str, answer: float, idea: str) -> None:
    with pytest.raises(kb.WrongAnswer) as caught:
        kb.check_answer(id, answer)
    assert caught.value.idea.startswith(idea)
    assert f"{RIGHT[id]:,}".replace(",", " ") not in str(caught.value)


def test_a_fraction_is_said_as_one() -> None:
    for answer, said in ((107.5, "you said 107.5 keys."), (Fraction(191, 2), "you said 191/2 keys.")):
        with pytest.raises(kb.WrongAnswer) as caught:
            kb.check_answer("04a", answer)
        assert caught.value.got == said


@pytest.mark.parametrize("id", RIGHT)
@pytest.mark.parametrize("answer", ["many", "12 kB", [12], True, float("nan"), {}, print])
def test_what_is_no_number_says_how_to_write_one(id: str, answer: Any) -> None:
    with pytest.raises(
        kb.WrongAnswer, match=r"is not a plain number\.\nWrite the number alone, in \w+: answer"
    ):
        kb.check_answer(id, answer)


# -- the right numbers, by runs ---------------------------------------------------------------------------------


def fits(**options: Any) -> bool:
    try:
        kb.bench("gqa_decode", data=False, pes=1, **options)
    except kb.ScratchOverflowError:
        return False
    return True


def test_00_is_a_run() -> None:
    q, k, v = kb.sample_attention()
    peaks = {t: kb.decode(q[-1:], k, v, pes=1, tile=t, data=False).peak_scratch for t in (16, 32, 48)}
    assert (peaks[16], peaks[32], peaks[48]) == (25_680, 40_560, RIGHT["00"])


def test_01_grows_as_the_plain_kernel_does() -> None:
    def moved(n: int) -> int:
        return kb.bench(
            "naive_attention", data=False, T_q=n, S_kv=n, h_q=1, h_kv=1, d=64, rows=n // 2
        ).hbm_bytes

    for n in (64, 128):
        assert traffic._growth(n) == Fraction(moved(2 * n), moved(n))
    assert traffic._growth(RIGHT["01"] - 1) < Fraction(39, 10) <= traffic._growth(RIGHT["01"])


def test_03_and_one_tile_more_by_runs() -> None:
    shape = {"h_q": 32, "h_kv": 8, "d": 128, "tile": 8, "scoped": False}
    assert fits(S_kv=8 * RIGHT["03"], **shape)
    assert not fits(S_kv=8 * (RIGHT["03"] + 1), **shape)


def test_04a_and_one_key_more_by_runs() -> None:
    small = {"base": "ahbm", "pe": {"tcm": {"kernel_scratch_mb": BUDGET / MIB}}}
    shape = {"S_kv": 319, "h_q": 9, "h_kv": 3, "d": 64, "topology": small}
    assert kb.resolve_topology(small).scratch_bytes == BUDGET
    assert fits(tile=RIGHT["04a"], **shape)
    assert not fits(tile=RIGHT["04a"] + 1, **shape)


def test_06_is_what_a_run_does() -> None:
    for shape in ((256, 1024, 64, 64), (319, 319, 64, 64), (128, 319, 32, 64), (64, 319, 64, 48)):
        t_q, s_kv, b_q, b_kv = shape
        run = kb.bench(
            "flash_attention",
            data=False,
            T_q=t_q,
            S_kv=s_kv,
            h_q=1,
            h_kv=1,
            d=8,
            tile_q=b_q,
            tile_kv=b_kv,
            causal=True,
        )
        assert len(run.tiles) == tiles_that_run(*shape)
    assert tiles_that_run(256, 1024, 64, 64) == RIGHT["06"]


@pytest.mark.parametrize(("id", "group"), [("07a", 4), ("07b", 16)])
def test_07_and_one_key_less_by_runs(id: str, group: int) -> None:
    def share(keys: int) -> Fraction:
        run = kb.bench("gqa_decode", data=False, pes=1, S_kv=keys, h_q=group, h_kv=1, d=64)
        return Fraction(run.flops, run.hbm_bytes) / group

    assert share(RIGHT[id]) >= Fraction(95, 100) > share(RIGHT[id] - 1)


def test_08_and_one_key_more_by_runs() -> None:
    shape = {"S_kv": 4096, "h_q": 8, "h_kv": 1, "d": 128, "prefetch": True}
    assert fits(tile=RIGHT["08"], **shape)
    assert not fits(tile=RIGHT["08"] + 1, **shape)
    assert fits(tile=1_569, **{**shape, "prefetch": False})
    assert not fits(tile=1_570, **{**shape, "prefetch": False})

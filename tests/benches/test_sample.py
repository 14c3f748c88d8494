"""The shipped data: its shape, and the facts about it that the course tells."""

from __future__ import annotations

import math
import random
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernbench_nb.benches import reference as ref
from kernbench_nb.benches.sample import sample_attention

TILE = 16


@cache
def last_token() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Scores (9, 319), weights (9, 319) and O (9, 64) of the last token, exact."""
    q, k, v = sample_attention()
    scores, weights, out = ref.naive(q[-1:], k, v)
    return scores[:, 0], weights[:, 0], out[0]


def tiles(n: int = 319) -> list[slice]:
    return [slice(start, min(start + TILE, n)) for start in range(0, n, TILE)]


# -- the arrays --------------------------------------------------------------------------------------------


def test_shapes_and_dtypes() -> None:
    q, k, v, tokens = sample_attention(tokens=True)
    assert q.shape == (319, 9, 64)
    assert k.shape == v.shape == (319, 3, 64)
    assert {a.dtype for a in (q, k, v)} == {np.dtype(np.float16)}
    assert all(np.isfinite(a).all() for a in (q, k, v))
    assert len(tokens) == 319
    assert {type(word) for word in tokens} == {str}
    assert len(sample_attention()) == 3


def test_it_is_loaded_once_and_cannot_be_changed() -> None:
    first, again = sample_attention(), sample_attention(tokens=True)
    assert all(a is b for a, b in zip(first, again, strict=False))
    for array in first:
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0, 0] = 0
    again[3][0] = "changed"
    assert sample_attention(tokens=True)[3][0] == "Four"


def test_the_file_needs_no_pickle() -> None:
    with (files("kernbench_nb.benches") / "data" / "smollm2_layer29.npz").open("rb") as stream:
        data = np.load(stream, allow_pickle=False)
        assert data["tokens"].dtype.kind == "U"
        assert set(data.files) == {"q", "k", "v", "tokens", "token_ids"}


def test_the_text() -> None:
    *_, tokens = sample_attention(tokens=True)
    assert "".join(tokens).startswith(
        "Four score and seven years ago our fathers brought forth on this continent,"
    )
    assert "".join(tokens[-7:]) == " shall not perish from the earth."


# -- notebook 00: the tour ---------------------------------------------------------------------------------


def test_pe_7s_last_tile_holds_the_last_words() -> None:
    *_, tokens = sample_attention(tokens=True)
    shards = [40] * 7 + [39]  # the first shards are one row longer
    start = sum(shards[:7]) + 2 * TILE
    assert sum(shards) == 319
    assert tokens[start:] == [" shall", " not", " perish", " from", " the", " earth", "."]


def test_head_3_puts_90_percent_on_earth() -> None:
    *_, tokens = sample_attention(tokens=True)
    _, weights, _ = last_token()
    top = int(weights[3].argmax())
    assert tokens[top] == " earth"
    assert weights[3, top] == pytest.approx(0.90, abs=0.005)


def test_for_head_3_what_pe_7_saw_before_its_last_tile_fades() -> None:
    scores, _, _ = last_token()
    correction = np.exp(scores[3, 280:312].max() - scores[3, 280:].max())
    assert round(float(correction), 2) == 0.0


# -- notebook 02: one pass ---------------------------------------------------------------------------------


def test_the_favourites_of_head_3_before_the_last_words() -> None:
    *_, tokens = sample_attention(tokens=True)
    scores, _, _ = last_token()
    weights = ref.softmax(scores[3, :304])
    best = np.argsort(weights)[::-1][:3]
    assert [(tokens[i], round(100 * float(weights[i]))) for i in best] == [
        ("Four", 18),
        (" vain", 18),
        (" government", 15),
    ]


def test_the_running_maximum_of_head_3_moves_once() -> None:
    scores, _, _ = last_token()
    running = np.maximum.accumulate([scores[3, tile].max() for tile in tiles()])
    np.testing.assert_allclose(running, [1.29] * 19 + [7.35], atol=0.005)
    assert math.exp(running[18] - running[19]) == pytest.approx(0.002, abs=0.0005)


def test_averaging_the_tiles_is_wrong() -> None:
    _, _, v = sample_attention()
    scores, _, out = last_token()
    assert np.abs(out).max() == pytest.approx(5.89, abs=0.005)
    worst = []
    for head in range(9):
        values = v[:, head // 3].astype(np.float64)
        answers = [ref.softmax(scores[head, tile]) @ values[tile] for tile in tiles()]
        worst.append(np.abs(np.mean(answers, axis=0) - out[head]).max())
    assert len(tiles()) == 20
    assert max(worst) == pytest.approx(4.85, abs=0.005)
    assert int(np.argmax(worst)) == 3


def test_forgetting_the_correction_is_wrong() -> None:
    _, _, v = sample_attention()
    scores, _, out = last_token()
    worst = 0.0
    for head in range(9):
        values = v[:, head // 3].astype(np.float64)
        states = [ref.tile_state(scores[head, tile], values[tile]) for tile in tiles()]
        total = sum(state[2] for state in states) / sum(state[1] for state in states)
        worst = max(worst, np.abs(total - out[head]).max())
    assert worst == pytest.approx(4.91, abs=0.005)


@pytest.mark.parametrize("head", [3, 4])
def test_tiles_merge_in_any_order_to_rounding_and_not_bit_for_bit(head: int) -> None:
    _, _, v = sample_attention()
    scores, _, out = last_token()
    s, values = scores[head].astype(np.float32), v[:, head // 3].astype(np.float32)
    leaves = [ref.tile_state(s[tile], values[tile]) for tile in tiles()]
    pick = random.Random(head)
    patterns = set()
    for _ in range(100):
        states = list(leaves)
        while len(states) > 1:
            left, right = (states.pop(pick.randrange(len(states))) for _ in range(2))
            there, back = ref.merge_state(left, right), ref.merge_state(right, left)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(there, back, strict=True))
            states.append(there)
        answer, _ = ref.finish_state(states[0])
        assert np.abs(answer - out[head]).max() < 1e-5
        patterns.add(answer.tobytes())
    assert len(patterns) > 90


def test_a_shuffle_moves_the_maximum_2_6_times() -> None:
    scores, _, _ = last_token()
    # The theory, 1/2 + 1/3 + ... + 1/20, asks for 20 different maxima.
    assert len({float(scores[3, tile].max()) for tile in tiles()}) == 20
    assert sum(1 / n for n in range(2, 21)) == pytest.approx(2.60, abs=0.005)


# -- notebooks 03 and 12 -----------------------------------------------------------------------------------


def test_the_speech_three_times_over_changes_only_lse() -> None:
    q, k, v = sample_attention()
    out, lse = ref.attention(q[-1:], k, v)
    out3, lse3 = ref.attention(q[-1:], np.tile(k, (3, 1, 1)), np.tile(v, (3, 1, 1)))
    np.testing.assert_allclose(out3, out, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(lse3, lse + math.log(3), rtol=1e-14)


def test_the_first_word_sets_every_maximum_of_the_first_304() -> None:
    scores, _, _ = last_token()
    assert set(scores[:, :304].argmax(axis=1)) == {0}

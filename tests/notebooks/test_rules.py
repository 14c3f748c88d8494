"""Each rule finds what it is there to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import nbformat
import pytest
import rules

code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
output = nbformat.v4.new_output


def said(line: str, name: str = "stdout") -> Any:
    return output("stream", name=name, text=line + "\n")


def shown(**data: Any) -> Any:
    return output(
        "execute_result",
        data={key.replace("_", "/"): value for key, value in data.items()},
        execution_count=1,
    )


def good() -> Any:
    """A small notebook that keeps all rules."""
    starter = code("answer = ...  # tiles\n\nkb.check_answer('03', answer)", metadata={"tags": ["starter"]})
    starter.outputs = [said("exercise 03: not answered yet")]
    cells = [
        text("# 03 · Why does the scratch fill up?"),
        code("import kernbench_nb as kb"),
        text("**Predict.** How many bytes?"),
        code("guess = None  # bytes", metadata={"tags": ["prediction"]}),
        text("Now the run."),
        code("n = 3\nkb.predict(guess, n, unit='B')", outputs=[said("no guess. measured: 3 B")]),
        text("**Not so fast:** see the [glossary](../docs/GLOSSARY.md), 8 rows of s, 128 B."),
        code(
            "%matplotlib inline\nassert n == 3\nprint(f'proved: {n} tiles')",
            outputs=[said("proved: 3 tiles")],
        ),
        text("**Exercise.** How many?"),
        starter,
        text("**Next.** [Tiles](05_tiles.ipynb)."),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": {"name": "python3"}, "language_info": {"name": "python"}}
    )
    return notebook


IGNORED = nbformat.from_dict({"tags": ["nbval-ignore-output"]})
UNTAGGED = nbformat.from_dict({})
STARTER = "a cell tagged `starter` ends with one kb.check_answer(id, ...), and no other cell has it"

ALL: dict[str, Callable[[Any], Iterator[str]]] = {
    "shape": rules.shape,
    "words": rules.words,
    "code": rules.code,
    "links": lambda notebook: rules.links(notebook, {"../docs/GLOSSARY.md", "05_tiles.ipynb"}),
    "proof": rules.proof,
    "honesty": rules.honesty,
    "predictions": rules.predictions,
    "exercises": lambda notebook: rules.exercises(notebook, {"03"}),
    "outputs": rules.outputs,
    "metadata": rules.metadata,
}


def put(n: int, source: str | None = None, **changes: Any) -> Callable[[Any], None]:
    """Change one cell."""

    def change(notebook: Any) -> None:
        cell = notebook.cells[n]
        if source is not None:
            cell.source = source
        for key, value in changes.items():
            cell[key] = value

    return change


def insert(n: int, cell: Any) -> Callable[[Any], None]:
    return lambda notebook: notebook.cells.insert(n, cell)


def remove(n: int) -> Callable[[Any], None]:
    return lambda notebook: notebook.cells.pop(n)


def widget(**state: Any) -> Callable[[Any], None]:
    def change(notebook: Any) -> None:
        data = {rules.VIEW: {"model_id": "1"}, "text/plain": "a view", "text/html": "<img>"} | state
        notebook.cells[5].outputs.append(output("display_data", data={k: v for k, v in data.items() if v}))

    return change


def test_a_good_notebook_passes() -> None:
    assert {name: list(rule(good())) for name, rule in ALL.items()} == {name: [] for name in ALL}


@pytest.mark.parametrize(
    ("rule", "change", "faults"),
    [
        (
            "shape",
            put(0, "# A statement"),
            ["cell 0: a notebook begins with its question, `# ...?`, not '# A statement'"],
        ),
        ("shape", remove(4), ["cells 3 and 4: no sentence between two code cells"]),
        ("shape", lambda nb: nb.cells.extend(text("x") for _ in range(16)), ["27 cells, at most 26"]),
        ("words", put(2, "word " * 90 + "- | 0"), ["cell 2: 91 words, at most 90"]),
        ("words", put(2, "[" + "word " * 89 + "](a/b)"), []),
        ("words", put(2, "It takes 3.2 us."), ["cell 2: '3.2 us'"]),
        (
            "words",
            put(2, "It takes 16 872 680 ps here, 4 seconds there."),
            ["cell 2: '16 872 680 ps'", "cell 2: '4 seconds'"],
        ),
        ("words", put(2, "18 s long, but 8 scores and 12 minus 3"), ["cell 2: '18 s'"]),
        ("words", put(2, "The SRAM of it"), ["cell 2: 'SRAM'"]),
        ("code", put(5, "a = 1\n\n" * 13 + "kb.predict(guess, a)"), ["cell 5: 14 lines of code, at most 12"]),
        ("code", put(5, "a = 1\n\n" * 12), []),
        ("code", put(5, "x = " + "1" * 85), ["cell 5: a line of 89 columns, at most 88"]),
        (
            "code",
            put(5, "def f():\n    from math import pi"),
            ["cell 5: imports belong in the first code cell"],
        ),
        (
            "links",
            put(2, "[x](04_arenas.ipynb#top)"),
            ["cell 2: the link to 04_arenas.ipynb#top leads to no file of the course"],
        ),
        ("links", put(2, "[x](https://arxiv.org/abs/1) [y](#top) [z](05_tiles.ipynb#top)"), []),
        ("proof", put(7, "n = 3"), ["0 cells assert, there is one proof"]),
        (
            "proof",
            put(5, "assert True"),
            [
                "2 cells assert, there is one proof",
                "cell 5: the proof belongs in the last third of 11 cells",
                "cell 5: prints 0 lines `proved: ...`, there is one",
            ],
        ),
        (
            "proof",
            put(7, outputs=[said("proved: a\nproved: 1")]),
            ["cell 7: prints 2 lines `proved: ...`, there is one"],
        ),
        ("proof", put(7, outputs=[said("proved: it")]), ["cell 7: no number in 'proved: it'"]),
        ("proof", put(7, metadata=IGNORED), ["cell 7: the proof is not compared"]),
        ("proof", put(5, outputs=[said("proved: 1")]), ["2 outputs with `proved: ...`, there is one"]),
        ("honesty", put(6, "all is well"), ["0 times `Not so fast`, there is one"]),
        ("honesty", put(2, "Not so fast"), ["2 times `Not so fast`, there is one"]),
        ("predictions", put(3, "guess = 3"), ["cell 3: a prediction is saved as `guess = None`"]),
        (
            "predictions",
            put(3, metadata=UNTAGGED),
            [
                "cell 5: the code cell before it (cell 3) is not tagged `prediction`",
                "0 predictions are asked for, 1 answered; there is one at least",
            ],
        ),
        ("predictions", put(5, "kb.predict(guess, 3)\nprint(1)"), ["cell 5: kb.predict comes last"]),
        (
            "predictions",
            put(5, outputs=[said("you said 3, measured 3: right")]),
            ["cell 5: saved with a guess"],
        ),
        ("exercises", put(9, metadata=UNTAGGED), [f"cell 9: {STARTER}"]),
        (
            "exercises",
            put(9, "answer = 12\nkb.check_answer('03', answer)"),
            ["cell 9: a starter leaves `...` to be filled in"],
        ),
        (
            "exercises",
            put(9, outputs=[said("exercise 03: right. x")]),
            ["cell 9: saved with an answer to 03"],
        ),
        ("exercises", put(9, "..."), [f"cell 9: {STARTER}", "exercises [], expected ['03']"]),
        ("outputs", put(5, outputs=[shown(image_svg="<svg>")]), ["cell 5: an output of image/svg"]),
        ("outputs", put(5, outputs=[said("<object at 0x7f00aa11>")]), ["cell 5: 0x7f00aa11 is an address"]),
        (
            "outputs",
            put(5, outputs=[shown(text_plain="1.234567 0.0001234567 1.50000000 v1.234567.8")]),
            ["cell 5: 1.234567 has more than 6 digits", "cell 5: 0.0001234567 has more than 6 digits"],
        ),
        ("outputs", put(5, metadata=IGNORED), ["cells [5] are not compared, at most one code cell in ten"]),
        ("outputs", widget(), ["cell 5: a widget whose state is not saved"]),
        (
            "outputs",
            widget(**{"text/html": ""}),
            [
                "cell 5: a widget without a page that stands for it",
                "cell 5: a widget whose state is not saved",
            ],
        ),
        (
            "outputs",
            widget(**{"text/html": "x" * 40_001}),
            [
                "cell 5: the page that stands for a widget is over 40000 B",
                "cell 5: a widget whose state is not saved",
            ],
        ),
        ("metadata", lambda nb: nb.metadata.kernelspec.update(name="py312"), ["the kernel is not python3"]),
        (
            "metadata",
            lambda nb: nb.metadata.language_info.update(version="3.11.7"),
            ["the version of Python is saved: run notebooks/build.py"],
        ),
        (
            "metadata",
            put(5, metadata=nbformat.from_dict({"execution": {}})),
            ["cell 5: wall times are saved: run notebooks/build.py"],
        ),
    ],
)
def test_a_rule(rule: str, change: Callable[[Any], Any], faults: list[str]) -> None:
    notebook = good()
    change(notebook)
    assert list(ALL[rule](notebook)) == faults


# -- solutions, and the script that makes them ------------------------------------------------------------------

SOLVED = "answer = 12\n\nkb.check_answer('03', answer)"


def solved(build: Any) -> Any:
    made = build.solved(good(), {"03": SOLVED})
    made.cells[9].outputs = [said("exercise 03: right. The first tile is cheaper.")]
    return made


def test_only_the_starter_cells_are_replaced(build: Any) -> None:
    notebook, made = good(), solved(build)
    assert made.cells[9].source == SOLVED
    assert [cell.source for cell in made.cells[:9]] == [cell.source for cell in notebook.cells[:9]]
    assert list(rules.solution(notebook, made)) == []
    assert "..." in notebook.cells[9].source


@pytest.mark.parametrize("blocks", [{}, {"04a": SOLVED}, {"03": SOLVED, "04a": SOLVED}])
def test_blocks_and_starters_are_one_to_one(build: Any, blocks: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"starter cells \['03'\], solutions "):
        build.solved(good(), blocks)


def test_blocks_of_a_file(build: Any) -> None:
    assert build.blocks_of(
        '"""Of 04."""\n\n# %% 04a\nanswer = 95\n\n# %% 04b\ndef f():\n    # %% no\n    pass\n'
    ) == {
        "04a": "answer = 95",
        "04b": "def f():\n    # %% no\n    pass",
    }


def test_a_starter_has_one_check(build: Any) -> None:
    for source in ("answer = ...", "kb.check_answer('03', 1)\nkb.check_answer('03', 2)"):
        with pytest.raises(ValueError, match=r"a starter cell has one kb\.check_answer"):
            build.exercise_of(code(source))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (put(9, outputs=[said("exercise 03: not answered yet")]), "cell 9 does not say that 03 is right"),
        (put(9, "kb.check_answer('00', 1)"), "cell 9 does not check 03"),
        (put(5, "kb.predict(3, 3)"), "cell 5 is not the notebook's, and no starter cell"),
        (put(5, metadata=nbformat.from_dict({"tags": ["x"]})), "cell 5 is of another kind"),
        (
            put(7, outputs=[said("proved: 4 tiles")]),
            "cell 7 gave something else than in the notebook: run notebooks/build.py",
        ),
        (remove(2), "10 cells, the notebook has 11"),
    ],
)
def test_a_solution(build: Any, change: Callable[[Any], Any], fault: str) -> None:
    made = solved(build)
    change(made)
    assert list(rules.solution(good(), made)) == [fault]


def test_widgets_are_counted_in_order_of_their_places(build: Any) -> None:
    """Random ids become numbers: shown ones first, with those that they refer to, then the rest."""

    def notebook(first: str, layout: str, spare: str) -> Any:
        def state(**of: Any) -> dict[str, Any]:
            return {"model_name": "M", "model_module": "m", "model_module_version": "1", "state": of}

        made = nbformat.v4.new_notebook(cells=[code("x", outputs=[shown(text_plain="a view")])])
        made.cells[0].outputs[0].data[rules.VIEW] = {"model_id": first}
        states = {spare: state(a=1), layout: state(b=2), first: state(layout=f"IPY_MODEL_{layout}")}
        made.metadata["widgets"] = {rules.STATE: {"state": states}}
        return build._with_counted_widgets(made)

    one = notebook("f" * 32, "e" * 32, "d" * 32)
    two = notebook("1" * 32, "2" * 32, "3" * 32)
    # ids of cells are random here, and counted when a notebook is run
    two.cells[0].id = one.cells[0].id
    assert one == two
    assert one.cells[0].outputs[0].data[rules.VIEW] == {"model_id": f"{1:032x}"}
    assert one.metadata.widgets[rules.STATE].state[f"{1:032x}"].state.layout == f"IPY_MODEL_{2:032x}"

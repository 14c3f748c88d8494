"""``import kernbench_nb`` is light: what is heavy loads when it is first used. Seen from a fresh process."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "pandas",
    "matplotlib",
    "IPython",
    "ipywidgets",
    "anywidget",
    "jupyterlab",
    "scipy",
    "yaml",
    "msgspec",
    "click",
)
DRAWING = ("pandas", "matplotlib", "IPython", "ipywidgets", "anywidget", "jupyterlab", "scipy")

# Runs in the child: lets every import through, but notes for each heavy package who asked for it first.
WATCH = """
import sys, traceback

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in heavy and name not in seen:
            stack = [f for f in traceback.extract_stack()[:-1] if "importlib" not in f.filename]
            seen[name] = "".join(traceback.format_list(stack[-4:]))
        return None

heavy, seen = set({heavy!r}), {{}}
sys.meta_path.insert(0, Watch())
exec({code!r})
for name in sorted(heavy & set(sys.modules)):
    print(f"{{name}} was imported from\\n{{seen.get(name, '  (before the code ran)')}}")
"""


def heavy_imports(code: str, heavy: tuple[str, ...]) -> str:
    """Run ``code`` in a fresh interpreter; names each heavy package that it loaded, and from where."""
    child = subprocess.run(
        [sys.executable, "-c", WATCH.format(heavy=heavy, code=code)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import kernbench_nb", HEAVY),
        ("import kernbench_nb as kb; dir(kb); kb.__all__; kb.__version__", HEAVY),
        ("import kernbench_nb as kb; kb.ScratchOverflowError", HEAVY),
        # The language works alone, and a run pays for a frame or a picture only when it is asked for one.
        ("import kernbench_nb as kb; kb.TLContext", DRAWING),
        ("import kernbench_nb as kb; kb.decode; kb.launch; kb.RunResult; kb.resolve_topology()", DRAWING),
        ("import kernbench_nb as kb; kb.predict; kb.check_answer", HEAVY),
        ("import kernbench_nb.cli", DRAWING),
    ],
)
def test_nothing_heavy_is_loaded(code: str, heavy: tuple[str, ...]) -> None:
    loaded = heavy_imports(code, heavy)
    assert not loaded, f"{code!r} is not light:\n{loaded}"


def test_a_heavy_import_would_be_seen() -> None:
    loaded = heavy_imports("def draw():\n    import yaml\ndraw()", HEAVY)
    assert loaded.startswith("yaml was imported from\n")
    assert "in draw" in loaded
    assert "msgspec" not in loaded

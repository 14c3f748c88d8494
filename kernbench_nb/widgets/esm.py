"""One ES module text out of the small ones in ``static/``: a widget's ``_esm`` is one text, and so is an exported page.

No bundler and no build step: the files are read when a widget is first made. Each module becomes a function that
returns what it exports, called in the order of the imports, so the modules keep their names to themselves::

    // marks.js                                  const $marks = (() => {
    import { svg } from './dom.js';       ->     const { svg } = $dom;
    export class Marks { ... }                   class Marks { ... }
                                                 return { Marks };
                                                 })();

What is understood is what the modules use: ``import { a, b as c } from './name.js';`` and ``export`` before a
function, class, const or let, or ``export default`` in the module that a page starts from.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["css", "esm"]

_IMPORT = re.compile(r"^import \{([^}]*)\} from '\./(\w+)\.js';$", re.MULTILINE)
_EXPORT = re.compile(r"^export (async function|function|class|const|let) (\w+)", re.MULTILINE)
_DEFAULT = re.compile(r"^export default ", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


@cache
def esm(entry: str) -> str:
    """The text of one module and of all that it imports, as one module.

    Parameters
    ----------
    entry
        Name of a file in ``static/`` without its ending; it has an ``export default``.

    Raises
    ------
    ValueError
        If a module imports in a circle, or uses a form of import or export that is not understood.
    """
    parts: list[str] = []
    done: list[str] = []
    _collect(entry, [], done, parts)
    if f"${entry}.default" not in parts[-1]:
        raise ValueError(f"{entry}.js has no `export default`, so it cannot be what a widget starts from")
    return "\n".join(parts)


@cache
def css() -> str:
    """The style sheet that all views share."""
    return (_static() / "kernbench.css").read_text(encoding="utf-8")


def _static() -> Traversable:
    return files("kernbench_nb") / "widgets" / "static"


def _collect(name: str, above: list[str], done: list[str], parts: list[str]) -> None:
    if name in above:
        raise ValueError(f"modules import in a circle: {' -> '.join([*above, name])}")
    if name in done:
        return
    text = (_static() / f"{name}.js").read_text(encoding="utf-8")
    for match in _IMPORT.finditer(text):
        _collect(match[2], [*above, name], done, parts)
    done.append(name)
    parts.append(_wrapped(name, text))


def _wrapped(name: str, text: str) -> str:
    exported = [match[2] for match in _EXPORT.finditer(text)]
    body = _IMPORT.sub(lambda m: f"const {{{re.sub(r' as ', ': ', m[1])}}} = ${m[2]};", text)
    body = _EXPORT.sub(r"\1 \2", body)
    default = _DEFAULT.search(body)
    if default:
        body = _DEFAULT.sub("const $default = ", body)
        exported.append("default: $default")
    left = _OTHER.search(body)
    if left:
        raise ValueError(f"{name}.js: `{left[0].strip()}` is not a form that widgets/esm.py understands")
    tail = f"\nexport default ${name}.default;" if default else ""
    return f"const ${name} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();{tail}"

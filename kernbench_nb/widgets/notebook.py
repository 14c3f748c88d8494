"""The notebook packages, in one place: whoever needs one asks here, and is told what to install if it is not there."""

from __future__ import annotations

try:
    import anywidget
    import ipywidgets
    import traitlets
except ImportError as error:
    raise ImportError(
        f"views in a notebook need {error.name}, which is not installed: pip install 'kernbench_nb[lab]' "
        "(run.to_html(path) and the plots in kb.plots work without it)."
    ) from error

__all__ = ["anywidget", "ipywidgets", "traitlets"]

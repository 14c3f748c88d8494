"""Views that a reader steps through; what comes in, what goes out and why stands in the README beside this file.

Modules are imported when they are used: the trace format needs no widget, and a page on disk no notebook.
"""

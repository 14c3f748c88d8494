"""Tensors, launches, benches, and what a run gives back.

Modules are imported when they are used: a result that was loaded needs no engine.
"""

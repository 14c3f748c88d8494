"""The attention kernels, their entry points, their float64 references, and the closed forms of their scratch.

Modules are imported when they are used: the kernels need nothing but `tl`, the entry points need the whole machine.
"""

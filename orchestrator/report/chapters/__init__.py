"""The chapters of the report: each turns a Report into a Section (report/sections.py) for all formats.

cell: a device, model and configuration to measure. phase: workload of a cell, such as training. launch: one process
that measures a cell once. loaded, solo: while the other GPUs work, or are idle. figure: a column of figures/table.py.
"""

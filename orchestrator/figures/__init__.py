"""The types of a report and the names of its figures. Null (None): unknown or not applicable.

What a cell, a launch, a round, a mode and siblings are: analysis/__init__.py.
"""

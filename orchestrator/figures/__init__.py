"""The types of a report and the names of its figures. Null (None): unknown or not applicable.

orchestrator/__init__.py defines cell, launch, round, mode and siblings.
"""

"""Operators: their functions, their verification, and their times."""

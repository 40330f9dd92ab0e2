"""The history: findings of earlier runs in one SQLite file, read as lists, trends and earlier offences of GPUs.

An offence is a FAIL or WARN verdict on a device. A trend is one figure of a cell on one device over many runs. Its
level is the value around which runs vary. A change is a lasting step of the level. analysis/__init__.py says what a
cell is.
"""

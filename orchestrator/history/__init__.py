"""The history: findings of earlier runs in one SQLite file, read as lists, trends and earlier offences of GPUs.

An offence is a FAIL or WARN verdict on a device. A trend is one figure of a cell on one device over many runs. Its
level is the value around which runs vary; a change is a lasting step of it. What a cell is: analysis/__init__.py.
"""

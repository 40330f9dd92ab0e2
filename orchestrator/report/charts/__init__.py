"""Chapters that are mainly charts: each module makes the data of its charts. types.py: the types of that data."""

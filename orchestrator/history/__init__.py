"""The history: findings of earlier runs in one SQLite file, read as lists, trends and earlier offences of GPUs."""

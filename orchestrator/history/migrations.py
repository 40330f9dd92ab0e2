"""The schema of the history as migrations, which never change once released.

Migration n changes the database from user_version n - 1 to n.
"""

from typing import Final

APPLICATION_ID: Final = 0x67707562
"""`PRAGMA application_id` that marks a database as a history: "gpub" as four bytes."""

_RUNS: Final = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY NOT NULL,
    test_date TEXT NOT NULL,
    folder TEXT NOT NULL,
    hostname TEXT NOT NULL,
    profile TEXT NOT NULL,
    seconds REAL NOT NULL,
    verdict TEXT NOT NULL,
    exit_code INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    tainted INTEGER NOT NULL,
    health TEXT NOT NULL,
    planned INTEGER NOT NULL,
    ok INTEGER NOT NULL,
    stack TEXT NOT NULL
)
"""
_DEVICES: Final = """
CREATE TABLE devices (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    gpu_uuid TEXT NOT NULL,
    label TEXT NOT NULL,
    gpu_name TEXT NOT NULL,
    kind TEXT NOT NULL,
    facts TEXT NOT NULL,
    health TEXT NOT NULL,
    health_words TEXT NOT NULL,
    PRIMARY KEY (run_id, gpu_uuid)
)
"""
_CELLS: Final = """
CREATE TABLE cells (
    run_id TEXT NOT NULL,
    gpu_uuid TEXT NOT NULL,
    model_name TEXT NOT NULL,
    phase TEXT NOT NULL,
    precision TEXT NOT NULL,
    batch_size INTEGER NOT NULL,
    cell_key TEXT NOT NULL,
    status TEXT NOT NULL,
    doubt TEXT NOT NULL,
    metric TEXT NOT NULL,
    launches TEXT NOT NULL,
    figures TEXT NOT NULL,
    FOREIGN KEY (run_id, gpu_uuid) REFERENCES devices (run_id, gpu_uuid) ON DELETE CASCADE
)
"""

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        _RUNS,
        _DEVICES,
        _CELLS,
        "CREATE INDEX cells_of_run ON cells (run_id, gpu_uuid)",
        "CREATE INDEX cells_of_model ON cells (model_name)",
        "PRAGMA application_id = 1735423330",
        "PRAGMA user_version = 1",
    ),
    (
        "ALTER TABLE runs ADD COLUMN burn_in TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE devices ADD COLUMN burn_in TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE devices ADD COLUMN burn_in_words TEXT NOT NULL DEFAULT ''",
        "CREATE INDEX runs_by_date ON runs (test_date)",
        "CREATE INDEX devices_by_uuid ON devices (gpu_uuid)",
        "PRAGMA user_version = 2",
    ),
)

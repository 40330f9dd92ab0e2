"""What earlier runs found: kept in one SQLite file, and read again as lists, trends, and GPUs that failed before.

Report ── entry ──▶ RunRecord ── writing ──▶ history.db ── reading ──▶ lines, records, points, offences
                                   │                                        │
            place, mounts, store, migrations                        trend, earlier (pure)
"""

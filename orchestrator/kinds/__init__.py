"""The kinds of run: benchmark, triage, burn-in, gate, operators, study. Each module holds what only its kind needs."""

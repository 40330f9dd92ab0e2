"""The kinds of run: benchmark, triage, burn-in, gate, operators, each with everything that only it needs."""

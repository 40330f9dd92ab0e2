"""The kinds of run: benchmark, triage, burn-in, each with everything that only it needs."""

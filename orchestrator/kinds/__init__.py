"""The kinds of run, each with everything that is its own."""

"""Compute the figures of a report from the journal and the result files of a run."""

"""Files of a run: journal, records, lock, run folder."""

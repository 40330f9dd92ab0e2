"""The pure state of a run: slots, transitions, replay of the journal, archive."""

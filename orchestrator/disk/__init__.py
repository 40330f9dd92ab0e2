"""What a run leaves on disk: the journal and all that is told from it."""

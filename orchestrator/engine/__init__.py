"""One run: loop, conductor, events, and adaptive launches. Knows no kind."""

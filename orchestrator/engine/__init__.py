"""Engine of one run: loop, conductor, events and adaptive launches, for any kind."""

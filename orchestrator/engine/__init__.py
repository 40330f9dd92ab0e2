"""The engine that carries out one run of any kind: event loop, launches, events and adaptive launches."""

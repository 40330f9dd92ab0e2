"""What a run is told to do: facts of the closed enumerations that it may name."""

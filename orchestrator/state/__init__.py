"""The state of a run, derived only from its plan and the records of its journal. Pure."""

"""From a configuration to cells: which, in what order, and about how long they take. Pure."""

"""The models that ship, one module a family: how to build one, feed it, and train it."""

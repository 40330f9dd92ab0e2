"""Models. A family builds models of one kind, and has their inputs, forward pass and loss; base.py: its interface."""

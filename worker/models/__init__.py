"""Models. A family is a module that builds models of one kind, and defines their inputs, forward pass and loss.

base.py: interface of a family.
"""

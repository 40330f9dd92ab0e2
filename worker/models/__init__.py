"""Models. A family is a module that builds, feeds and trains models of one kind; base.py has its interface."""

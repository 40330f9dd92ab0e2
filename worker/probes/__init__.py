"""What a device reaches without a model, one module for each kind of work. worker/workloads/probe.py measures them."""

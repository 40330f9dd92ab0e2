"""This machine: processes, durable writes, safe reads. Knows nothing of GPUs."""

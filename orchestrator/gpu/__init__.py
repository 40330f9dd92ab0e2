"""GPUs: NVML, devices, and who uses them."""

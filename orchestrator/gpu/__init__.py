"""GPUs and CPU devices of this machine: NVML, CUDA, health, telemetry, and the processes that use GPUs."""

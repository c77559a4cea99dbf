"""The machine a job runs on: devices, GPUs, processes, memory."""

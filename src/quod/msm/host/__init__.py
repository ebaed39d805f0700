"""MSM on the CPU, in host memory."""

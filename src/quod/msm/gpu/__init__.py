"""Multi-scalar multiplication on devices with memory of their own."""

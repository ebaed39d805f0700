"""NTT passes on the CPU."""

"""Devices: where kernels run, and the memory they run on."""

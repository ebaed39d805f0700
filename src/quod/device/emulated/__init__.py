"""Devices that interpret kernels, PTX or WGSL, and a CPU device that checks every access."""

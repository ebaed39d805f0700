"""Devices that interpret: kernels, PTX, WGSL, and kernels with everything checked."""

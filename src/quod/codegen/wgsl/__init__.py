"""WGSL, for any GPU through WebGPU."""

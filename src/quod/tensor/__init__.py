"""Kernels of neural networks; `quod.tensor.quantised` has weights in the blocks of GGUF files."""

"""Commands on Quod's kernels."""

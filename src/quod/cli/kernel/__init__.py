"""Commands on the kernels that Quod is made of."""

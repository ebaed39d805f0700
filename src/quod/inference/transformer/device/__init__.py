"""The integer program on a device: memory, recordings and the model that runs."""

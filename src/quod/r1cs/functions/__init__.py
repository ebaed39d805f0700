"""Functions of circuits: the inputs that their signatures declare, and files that define them."""

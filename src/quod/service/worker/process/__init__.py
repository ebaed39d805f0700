"""A worker in a process of its own: what both processes say to each other, and each end."""

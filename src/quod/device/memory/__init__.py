"""Device memory: buffers, budgets, and arrays of other libraries."""

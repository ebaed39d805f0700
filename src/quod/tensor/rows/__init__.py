"""Functions of rows: softmax, norms, cross-entropy and sums over rows."""

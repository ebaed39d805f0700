"""Arguments of several steps: comparisons with constants, one-hot sums, denominators."""

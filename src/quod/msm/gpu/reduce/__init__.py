"""The third stage of an MSM: weighted sums reduce the bucket sums to the result."""

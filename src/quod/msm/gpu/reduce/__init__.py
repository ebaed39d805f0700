"""The third stage of an MSM: the sums of buckets to the result, by weighted sums."""

"""The second stage of an MSM: the sum of each bucket, chunk by chunk."""

"""MSM on a GPU: sort, bucket accumulation and bucket reduction."""

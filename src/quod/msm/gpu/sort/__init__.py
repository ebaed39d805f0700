"""The first stage of an MSM: scalars to signed digits, and those sorted by bucket."""

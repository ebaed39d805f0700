"""The search for counterexamples: two witnesses with equal inputs and different targets."""

"""Short Weierstrass curves."""

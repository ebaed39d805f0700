"""The verifier and the analyses it is made of."""

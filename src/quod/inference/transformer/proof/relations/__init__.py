"""The relations between columns: for each kind of operation its sum, and the claims that it leaves.

Each function returns the value of weighted sums in an equation, or terms that take their place.
"""

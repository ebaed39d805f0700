"""Number-theoretic transforms on devices with memory of their own."""

"""Training steps: AdamW, gradient clipping, low-rank adapters."""

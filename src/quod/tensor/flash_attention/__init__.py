"""Attention (FlashAttention: Dao et al., 2022), with masks and pages."""

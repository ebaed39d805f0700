"""Text of language models as jobs of the service."""

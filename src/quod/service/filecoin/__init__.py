"""Jobs of Filecoin proofs: requests of cuzk's protocol, and the workers that prove them."""

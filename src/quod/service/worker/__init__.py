"""Workers of the proving service: what claims jobs from the queue and proves them."""

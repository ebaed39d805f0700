"""Where the queue is kept: `sqlite` for one host, `postgres` for a fleet."""

"""The databases of the queue: `sqlite` for one host, `postgres` for a fleet."""

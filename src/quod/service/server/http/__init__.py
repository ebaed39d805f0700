"""The service over HTTP and JSON."""

"""The server: its configuration, who may do what, gRPC and HTTP, and what is seen from outside."""

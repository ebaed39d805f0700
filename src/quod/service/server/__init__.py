"""The server: configuration, authentication, gRPC and HTTP interfaces, and observability."""

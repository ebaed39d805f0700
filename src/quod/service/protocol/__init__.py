"""The messages and calls of the service over gRPC: quod.proto, and the code generated from it."""

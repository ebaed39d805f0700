"""The kernel language: values, control flow, memory and tracing."""

"""The proving service: server, workers, queue, keys, and clients."""

"""The proving service: its queue (`quod.service.queue`) and its keys (`quod.service.keys`)."""

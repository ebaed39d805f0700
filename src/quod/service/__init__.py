"""The proving service. So far its queue, `quod.service.queue`: accepted jobs are never lost."""

"""Training: a step is recorded once, and replayed with the batch and the rates of each step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reversal import Words, batch_of
from transformer import BETAS, Shape, Transformer

from quod.device import recorder_of
from quod.device.protocol import AnyDevice
from quod.tensor import adamw_rates

LEARNING_RATE = 1e-3
WARM_UP = 20
"""The number of steps in which the learning rate grows to its full value."""
WEIGHT_DECAY = 0.01


def rates_of(step: int) -> NDArray[Any]:
    """Return the rates of a step; steps count from 1."""
    return adamw_rates(
        step, learning_rate=LEARNING_RATE * min(1.0, step / WARM_UP), beta1=BETAS[0],
        beta2=BETAS[1], weight_decay=WEIGHT_DECAY,
    )  # fmt: skip


def batch_for(shape: Shape, step: int) -> tuple[Words, Words]:
    """Return the inputs and the targets of a step, each flattened to one axis."""
    batch = batch_of(step, shape.batch, shape.tokens // 2, shape.symbols)
    return batch[0].reshape(-1), batch[1].reshape(-1)


class Training:
    """A model in training.

    A step uploads 4 bytes per token, 4 per target and 12 of rates, and downloads the loss.
    """

    def __init__(self, device: AnyDevice, shape: Shape, seed: int = 0) -> None:
        self.device, self.shape = device, shape
        self.model = model = Transformer(device, shape, seed)
        self._tokens, self._targets = (np.zeros(shape.rows, np.int32) for _ in range(2))
        self._rates, self._loss = np.zeros(3, np.float32), np.zeros(1, np.float32)
        stream = device.stream("train").record()
        stream.upload(self._tokens, model.tokens)
        stream.upload(self._targets, model.targets)
        stream.upload(self._rates, model.rates)
        model.step(recorder_of(device, stream))
        stream.download(model.loss, self._loss)
        recorded = stream.finish()
        self.recording = recorded.recording
        self.number = 0

    def losses(self, steps: int) -> Iterator[float]:
        """Run `steps` steps; yield the loss of each, on a batch that was not trained on before."""
        for _ in range(steps):
            self.number += 1
            self._tokens[:], self._targets[:] = batch_for(self.shape, self.number)
            self._rates[:] = rates_of(self.number)
            self.device.stream("train").replay(self.recording).run()
            yield float(self._loss[0])

    def logits(self) -> NDArray[np.float32]:
        """Return the logits of the last step, of shape (tokens of the batch, symbols)."""
        values = np.empty((self.shape.rows, self.shape.symbols), np.float32)
        self.device.download(self.model.logits, values)
        return values

    @property
    def targets(self) -> Words:
        """The targets of the last step."""
        return self._targets

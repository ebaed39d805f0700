"""The benchmark subjects of tensors, one command each, and verified inference.

The functions measured are rows of `quod.bench.tensors.operations`, by subject and kind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from quod.bench.measure.settings import Settings, StagedSettings, Threads
from quod.cli.parameters import Option, WrongUsage

_WIDTHS = (784, 256, 128, 10)

Kinds = Annotated[
    list[str] | None,
    Option("--kind", metavar="KIND", help="The function of the subject. Default: the first."),
]
Shapes = Annotated[
    list[str] | None,
    Option("--shape", metavar="AxB", help="The sizes, or one size for all axes; may be repeated."),
]
ElementName = Annotated[str, Option(help="The element type: f32, f16 or bf16.")]


def _subject(name: str, shape: str, text: str) -> Callable[..., None]:
    def subject(
        settings: StagedSettings,
        kinds: Kinds = None,
        shapes: Shapes = None,
        dtype: ElementName = "f32",
        threads: Threads = None,
    ) -> None:
        from quod.bench.tensors.calls import cases

        bench_cases = cases(
            settings.device, settings.against, name, kinds, shapes or [shape], dtype, threads
        )
        settings.measure(name, bench_cases, floats=dtype)

    subject.__name__ = name
    peers = (
        "torch, numpy, copy (a copy of as many bytes as the function moves) and limit (the time "
        "that the chip's peak rates allow)"
    )
    subject.__doc__ = f"{text}\n\nThe peers are {peers}."
    return subject


def inference(
    settings: Settings,
    model: Annotated[
        Path | None,
        Option("--model", metavar="GGUF", help="A model file. Default: random weights."),
    ] = None,
    widths: Annotated[
        list[int] | None,
        Option("--width", least=1, help="The number of inputs, then of outputs of each layer."),
    ] = None,
    images: Annotated[int, Option(least=1, help="The number of images in a proof.")] = 64,
    cold: Annotated[
        bool, Option("--cold", help="Also measure a proof in a new process with an empty cache.")
    ] = False,
) -> None:
    """Verified inference: proofs of a perceptron's outputs, with committed 8-bit weights.

    The default widths are 784, 256, 128 and 10.
    """
    if widths is not None and (model is not None or len(widths) < 3):
        raise WrongUsage("--width needs at least three numbers and cannot be given with --model")
    from quod.bench.tensors.inference import cases

    bench_cases = cases(settings.device, model, widths or list(_WIDTHS), images, cold=cold)
    settings.measure("inference", bench_cases)


def transformer(
    settings: Settings,
    model: Annotated[
        Path | None,
        Option("--model", metavar="GGUF", help="A language model. Default: random weights."),
    ] = None,
    layers: Annotated[int, Option(least=1, help="The layers of a random model.")] = 30,
    tokens: Annotated[int, Option(least=1, help="The tokens of the prompt.")] = 1024,
) -> None:
    """Language models in exact integers: a prompt, and the token after it.

    A random model has the shape of SmolLM2-135M.
    """
    from quod.bench.tensors.transformer import cases

    settings.measure("transformer", cases(settings.device, model, layers, tokens))


def attention_gradient(
    settings: Settings,
    kinds: Kinds = None,
    shapes: Shapes = None,
    dtype: ElementName = "f32",
) -> None:
    """Gradients of attention, BxHxTxD: full, causal; no forward pass. The peer is torch."""
    from quod.bench.tensors.attention_gradient import cases

    bench_cases = cases(
        settings.device, settings.against, kinds or [], shapes or ["1x8x1024x64"], dtype
    )
    settings.measure("attention-gradient", bench_cases)


TENSOR_SUBJECTS: tuple[Callable[..., None], ...] = (
    inference,
    transformer,
    attention_gradient,
    *(
        _subject(*row)
        for row in (
            (
                "gemm",
                "1024",
                "Matrix products, MxNxK: nn, nt, tn, tt (t: transposed), tf32, int8, e4m3.",
            ),
            ("attention", "1x8x1024x64", "Attention, BxHxTxD: full, causal; T queries and keys."),
            (
                "decode",
                "4x32x8x4096x128",
                "Attention of a query, BxHxGxKxD: plain, paged; H heads of queries, G of keys, K "
                "keys.",
            ),
            ("softmax", "4096x4096", "Softmax along rows."),
            ("norm", "4096x4096", "Normalisation of rows: layer, rms."),
            ("activation", "4096x4096", "Element by element: silu, gelu, gelu-tanh, swiglu."),
            ("loss", "4096x4096", "The cross-entropy of rows, with its gradient."),
            ("adamw", "4096x4096", "A step of AdamW; the shape gives the number of parameters."),
        )
    ),
)

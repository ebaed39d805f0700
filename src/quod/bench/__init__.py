"""quod bench: one module a subject says what to measure, `harness` measures it.

A subject is a function of `subjects` with its own options, and a module with its cases. The options
that all of them have are the fields of `settings.Settings`.
"""

from __future__ import annotations

import typer

from quod.bench.measure.settings import subject_command
from quod.bench.subjects import SUBJECTS

app = typer.Typer(help="Measure Quod on this machine.", no_args_is_help=True)
for _subject in SUBJECTS:
    app.command()(subject_command(_subject))

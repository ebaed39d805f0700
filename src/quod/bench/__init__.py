"""quod bench: one module a subject says what to measure, `harness` measures it.

A subject is a function of `subjects` with its own options, and a module with its cases. The options
that all of them have are the fields of `settings.Settings`.
"""

from __future__ import annotations

from quod.bench.measure.settings import subject_command
from quod.bench.subjects import SUBJECTS
from quod.cli.parameters import Group

COMMANDS = Group(
    "Measure Quod on this machine.",
    {subject.__name__.replace("_", "-"): subject_command(subject) for subject in SUBJECTS},
)

"""The commands of quod bench: a module for each subject, measured by `harness`.

A subject is a function in `subjects` with its own options, and a module with its cases. The options
common to all subjects are the fields of `settings.Settings`.
"""

from __future__ import annotations

from quod.bench.measure.settings import subject_command
from quod.bench.subjects import SUBJECTS
from quod.cli.parameters import Group

COMMANDS = Group(
    "Measure Quod on this machine.",
    {subject.__name__.replace("_", "-"): subject_command(subject) for subject in SUBJECTS},
)

"""The `quod bench` commands: each subject has a module with its cases.

A subject is a function in `subjects` with its own options. The options common to
all subjects are the fields of `measure.settings.Settings`.
"""

from __future__ import annotations

from quod.bench.measure.settings import subject_command
from quod.bench.subjects import SUBJECTS
from quod.cli.parameters import Group

COMMANDS = Group(
    "Measure Quod on this machine.",
    {subject.__name__.replace("_", "-"): subject_command(subject) for subject in SUBJECTS},
)

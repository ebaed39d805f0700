"""Surroundings differ in what may change a result, and the difference is named."""

from __future__ import annotations

import os

import pytest

import quod
from quod.resident.surroundings import difference, surroundings


@pytest.mark.parametrize("name", ["QUOD_CACHE_DIR", "CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "HOME"])
def test_a_variable_is_a_difference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/one")
    before = surroundings()
    assert difference(before, surroundings()) == ""
    for value in ("/two", "", "/one\nHOME=/other"):
        monkeypatch.setenv(name, value)
        assert difference(before, surroundings()) == name
    monkeypatch.delenv(name)
    assert difference(before, surroundings()) == name


def test_the_version_and_the_processors_are_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    before = surroundings()
    with monkeypatch.context() as patch:
        patch.setattr(quod, "__version__", "0.0.0")
        assert difference(before, surroundings()) == "version"
    with monkeypatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: {0, 99})
        assert difference(before, surroundings()) == "processors"
    with monkeypatch.context() as patch:
        patch.setattr(os, "getgroups", lambda: [12345])
        assert difference(before, surroundings()) == "user"


def test_the_choice_of_a_helper_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUOD_RESIDENT", raising=False)
    before = surroundings()
    monkeypatch.setenv("QUOD_RESIDENT", "1")
    monkeypatch.setenv("TERM", "dumb")
    assert difference(before, surroundings()) == ""

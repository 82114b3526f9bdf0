"""Interpreters that the native runtime can't run in are refused in words."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from flambeau.codegen.runtime import cpython
from flambeau.core.tensor.tensor import Tensor


def test_this_interpreter_is_known() -> None:
    assert cpython.refusal() is None
    assert cpython.slot_offset(Tensor, "_layout") >= cpython.OBJECT_HEADER


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("implementation", SimpleNamespace(name="pypy"), "this is pypy"),
        ("abiflags", "t", "free-threaded"),
        ("byteorder", "big", "little-endian"),
    ],
)
def test_others_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: object, words: str) -> None:
    monkeypatch.setattr(sys, name, value)
    with pytest.raises(ImportError, match=words):
        cpython.check()


def test_another_layout_of_objects_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpython, "OBJECT_HEADER", 32)  # as in a build that traces references
    with pytest.raises(ImportError, match="other headers"):
        cpython.check()

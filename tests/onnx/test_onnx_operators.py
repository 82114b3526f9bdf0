"""Operators of aten and their ONNX models give the same, in an old and in a new operator set."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
from onnx_running import check_operator

SUBJECTS = ("elementwise", "reductions", "shapes", "indexing", "networks", "losses")
CASES = [
    pytest.param(*case, id=f"{subject}-{i}")
    for subject in SUBJECTS
    for i, case in enumerate(importlib.import_module(f"onnx_cases_{subject}").CASES)
]


@pytest.mark.parametrize(("function", "args"), CASES)
def test_operator(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    check_operator(function, args)

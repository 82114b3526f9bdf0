"""CallWatch tells of functions that begin, but for those that are known."""

from __future__ import annotations

import gc
import sys
import warnings
from typing import Any

import pytest

import flambeau as torch
from flambeau.capture.entry import Captured
from flambeau.codegen.runtime.call_watch import CallWatch


def outer(n: int) -> int:
    return inner(n) + inner(n)


def inner(n: int) -> int:
    return n


def watched(watch: CallWatch, function: Any, *args: Any) -> Any:
    before = sys.getprofile()
    watch.begin()
    try:
        return function(*args)
    finally:
        sys.setprofile(before)


def test_functions_are_told_until_their_code_is_known() -> None:
    told: list[tuple[str, str]] = []
    watch = CallWatch(lambda frame, event, argument: told.append((frame.f_code.co_name, event)), warnings.warn)
    assert watched(watch, outer, 2) == 4
    assert told == [("outer", "call"), ("inner", "call"), ("inner", "call")]
    told.clear()
    watch.know(inner.__code__)
    assert watched(watch, outer, 2) == 4
    assert told == [("outer", "call")]


def test_one_function_in_c_is_told() -> None:
    told: list[Any] = []
    watch = CallWatch(lambda frame, event, argument: told.append((event, argument)), len)
    assert watched(watch, lambda: len(str(abs(-10)))) == 2
    assert told[1:] == [("c_call", len)]


def test_what_is_told_may_fail_and_may_end_the_watch() -> None:
    def fails(frame: Any, event: str, argument: Any) -> None:
        raise KeyError(frame.f_code.co_name)

    with pytest.raises(KeyError, match="outer"):
        watched(CallWatch(fails, len), outer, 1)
    told: list[str] = []

    def ends(frame: Any, event: str, argument: Any) -> None:
        told.append(frame.f_code.co_name)
        sys.setprofile(None)

    assert watched(CallWatch(ends, len), outer, 1) == 2
    assert told == ["outer"]


def test_many_codes_are_known() -> None:
    told: list[Any] = []
    watch = CallWatch(lambda frame, event, argument: told.append(frame.f_code), len)
    functions = [eval(f"lambda: {i}") for i in range(3000)]
    for each in functions[::2]:
        watch.know(each.__code__)

    def call() -> None:
        for each in functions:
            each()

    watched(watch, call)
    assert told[1:] == [each.__code__ for each in functions[1::2]]


def test_a_recorded_call_has_what_it_sets_of_the_interpreter() -> None:
    def profile(frame: Any, event: str, argument: Any) -> None: ...

    def sets_profile(x: Any) -> Any:
        sys.setprofile(profile)
        return x * 2

    def collects_no_more(x: Any) -> Any:
        gc.disable()
        return x * 2

    first, second = Captured(sets_profile), Captured(collects_no_more)
    for _ in range(4):
        try:
            first(torch.ones(1))
            assert sys.getprofile() is profile
        finally:
            sys.setprofile(None)
    for _ in range(4):
        try:
            second(torch.ones(1))
            assert not gc.isenabled()
        finally:
            gc.enable()
    asks = Captured(lambda x: x * (2 if gc.isenabled() else 3))
    assert [asks(torch.ones(1)).item() for _ in range(4)] == [2] * 4


def product(x: Any, n: int) -> Any:
    return x if n == 0 else product(x, n - 1) * n


def endless(x: Any) -> Any:
    return endless(x)


def test_deep_recursion_is_as_without_a_recording() -> None:
    captured = Captured(lambda x: product(x, 500).isinf())
    assert all(captured(torch.ones(1)).item() for _ in range(4))
    captured = Captured(endless)
    for _ in range(3):
        with pytest.raises(RecursionError):
            captured(torch.ones(1))
        assert sys.getprofile() is None
        assert gc.isenabled()

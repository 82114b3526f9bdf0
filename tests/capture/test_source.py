"""Trees of functions are believed only if they are what was compiled, and their instrumented forms do what the functions do."""

from __future__ import annotations

import functools
import json.encoder
import random
import textwrap
import types
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.capture.instrument import NotInstrumented, instrumented
from flambeau.capture.recorder import Recorder
from flambeau.capture.source import source_of


def _plain(x: int) -> int:
    return x + 1


class _Base:
    __secret = 3

    def method(self, x: int) -> int:
        return x + self.__secret


class _Derived(_Base):
    def method(self, x: int) -> int:
        return super().method(x) * super().method(1)


def test_functions_methods_lambdas_and_decorated_ones_are_found() -> None:
    double, triple = lambda x: 2 * x, lambda x: 3 * x

    @functools.lru_cache
    def decorated(x: int) -> int:
        return x + 5

    for function in (
        _plain,
        _Base.method,
        _Derived.method,
        double,
        triple,
        decorated.__wrapped__,
        textwrap.dedent,
        json.encoder._make_iterencode,
    ):
        assert not isinstance(source_of(function.__code__), str), function
    assert _run(double, 4) == 8
    assert _run(triple, 4) == 12


def test_what_is_not_the_file_s_text_is_not_believed() -> None:
    changed = _plain.__code__.replace(co_consts=(None, 7))
    assert isinstance(source_of(changed), str)
    scope: dict[str, Any] = {}
    exec("def made(x):\n    return x + 1\n", scope)
    assert "no file" in str(source_of(scope["made"].__code__))
    assert "async" in str(source_of(_coroutine.__code__))


async def _coroutine() -> None:
    pass


def _run(function: Callable[..., Any], *args: Any) -> Any:
    recorder = Recorder()
    got = recorder.run(function, args, {})
    assert recorder.reason is None, recorder.reason
    return got


def everything(numbers: list[int], table: dict[str, int], *rest: int, step: int = 2, **others: int) -> Any:
    out: list[Any] = []
    box = types.SimpleNamespace(count=0, items=[0, 0])
    for i, n in enumerate(numbers):
        if n in (2, 3) and not n > 2:
            continue
        if i == 7:
            break
        box.count += n
        box.items[i % 2] -= n
        box.items[0], last = n, -n
        out.append((n, last))
    else:
        out.append("whole")
    first, *middle, end = numbers
    (a, b), c = (first, end), middle[0] if middle else None
    total = 0
    while total < 5:
        total += step
    try:
        table["absent"]
    except KeyError as error:
        out.append(str(error))
    finally:
        out.append("finally")
    inner = [x * y for x in numbers if x % 2 for y in (1, 2)]
    pairs = {k: v + total for k, v in table.items()}

    def nested(x: int, *, k: int = step) -> int:
        nonlocal total
        total += 1
        return x * k + len(out)

    made = {nested(n) for n in numbers}
    walrus = [found for n in numbers if (found := n + 1) > 2]
    del box.items[0]
    out.append(f"{total:>4}|{a!r}|{box.count}")
    return (
        out, a, b, c, inner, pairs, made, walrus, box.count, box.items, sum(rest), sorted(others.items()),
        (lambda q, *, z=1: q + z)(3), numbers[1:], numbers[::-1], [*numbers, *rest], {**table, "k": 1}, 1 < step < 3,
        any(n > 2 for n in numbers), max(numbers, default=0), "x" if table else "y", list(zip(numbers, rest, strict=False)),
    )  # fmt: skip


def test_an_instrumented_function_does_what_the_function_does() -> None:
    wanted = everything([1, 2, 3, 4], {"a": 1, "b": 2}, 7, 8, step=3, z=9)
    recorder = Recorder()
    got = recorder.run(everything, ([1, 2, 3, 4], {"a": 1, "b": 2}, 7, 8), {"step": 3, "z": 9})
    assert got == wanted
    assert recorder.reason is None, recorder.reason


def test_classes_keep_their_private_names_and_super() -> None:
    assert _run(_Derived().method, 4) == _Derived().method(4)


def test_errors_come_from_the_program_s_own_lines() -> None:
    def fails(x: Any) -> Any:
        return x.absent

    with pytest.raises(AttributeError) as told:
        Recorder().run(fails, (torch.ones(2),), {})
    mine = [entry for entry in told.traceback if entry.name == "fails"]
    assert [str(entry.path) for entry in mine] == [__file__]
    assert "x.absent" in str(mine[0].statement)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def f(x):\n    global g\n    for g in x: pass\n", "of its surroundings"),
        ("def f(x):\n    class A: pass\n    return A\n", "ClassDef"),
    ],
)
def test_what_cannot_be_followed_is_said(text: str, why: str, tmp_path: Any) -> None:
    path = tmp_path / "program.py"
    path.write_text(text)
    scope: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), scope)
    source = source_of(scope["f"].__code__)
    assert not isinstance(source, str)
    with pytest.raises(NotInstrumented, match=why):
        instrumented(scope["f"].__code__, source)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: print(end=""),
        lambda x: x.sum().item() + x,
        lambda x: x + __import__("random").random(),
        lambda x: x + __import__("time").time(),
        lambda x: x if x.sum() > 0 else -x,
        lambda x: _seen.append(1) or x,
        lambda x: x + max([1, 2], key=_rolled),
        lambda x: x + next(iter(_numbers)),
    ],
    ids=["print", "item", "random", "time", "branch", "append", "key", "iterator"],
)
def test_what_a_later_call_could_not_skip_refuses(function: Any) -> None:
    function(torch.ones(2))  # makes kernels
    recorder = Recorder()
    recorder.run(function, (torch.ones(2),), {})
    assert recorder.reason is not None


_seen: list[int] = []
_numbers = iter(range(100))
_rolled = random.Random(0).randrange

"""How compiled programs run: in few calls, with integers of 64 bits, and in sight of modes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import flambeau as torch
from flambeau.utils._python_dispatch import TorchDispatchMode


def _many_additions(x, y):
    for _ in range(100):
        x = x + y
    return x


def _arithmetic(x: int, y: int):
    return x + y, x - y, x * y


def _steps(x):
    return torch.relu(x + 1).sum(0)


def _python_calls(function, *args):
    names = []
    sys.setprofile(lambda frame, event, arg: names.append(frame.f_code.co_name) if event == "call" else None)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return names


def test_an_operator_is_one_call_of_the_public_function():
    """In a process of its own: where a mode or a program's kernel answers operators, calls go another way."""
    program = """
import flambeau as torch
from jit.test_execution import _many_additions, _python_calls
x = torch.ones(2)
program = torch.jit.script(_many_additions)
program(x, x)
called = _python_calls(program, x, x)
assert called.count("add") == 100 and len(called) < 110, called
"""
    tests = Path(__file__).parent.parent
    run = subprocess.run([sys.executable, "-c", program], cwd=tests, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_integers_wrap_at_64_bits():
    program = torch.jit.script(_arithmetic)
    top = 2**63 - 1
    assert program(top, 1) == (-(2**63), top - 1, top)
    assert program(-(2**63), 1) == (-(2**63) + 1, top, -(2**63))
    assert program(2**40, 2**40) == (2**41, 0, 0)
    assert program(2**31, 3) == (2**31 + 3, 2**31 - 3, 3 * 2**31)
    assert program(-5, 3) == (-2, -8, -15)


def test_a_mode_sees_the_operators_of_a_program_that_ran_without_them():
    seen = []

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.tensor([[-3.0, 1.0]])
    program = torch.jit.script(_steps)
    plain = program(x)
    with Operators():
        inside = program(x)
    assert seen == ["aten.add.Scalar", "aten.relu.default", "aten.sum.dim_IntList"]
    assert torch.equal(inside, plain)
    assert torch.equal(program(x), plain) and len(seen) == 3

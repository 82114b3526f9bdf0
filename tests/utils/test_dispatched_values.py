"""A mode below autograd that hands every operator on changes nothing: values, signs of zeros, strides."""

from __future__ import annotations

import math

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.operator.arguments import alike
from flambeau.utils._python_dispatch import TorchDispatchMode


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((str(func), args[1:], kwargs or {}))
        return func(*args, **(kwargs or {}))


X = torch.arange(24.0).reshape(2, 3, 2, 2) / 7 - 1
NAN = torch.tensor([math.nan, 1.0])
TRUE = torch.tensor([True, False, True])


@pytest.mark.parametrize("call", [
    lambda: X.var(False), lambda: torch.std(X, True), lambda: torch.var_mean(X, False)[0], lambda: X.std(1, False),
    lambda: torch.std_mean(X, dim=0, unbiased=False, keepdim=True)[0], lambda: X.var(unbiased=False), lambda: X.var(dim=(0, 2)),
    lambda: X.var(correction=3), lambda: X.to(torch.float64, memory_format=torch.channels_last),
    lambda: X.short(memory_format=torch.channels_last), lambda: X.permute(0, 2, 3, 1).double(), lambda: F.dropout(X, 1.0),
    lambda: torch.nan_to_num(NAN, -0.0), lambda: torch.nan_to_num_(NAN.clone(), -0.0),
    lambda: torch.nan_to_num_(NAN.clone(), 0.0),
    lambda: X.where(X > 0, 2.0), lambda: X.where(condition=X > 0, other=X * 2), lambda: TRUE.where(~TRUE, False),
    lambda: X.abs().polygamma(1), lambda: torch.special.polygamma(2, X.abs() + 1), lambda: X.clone().swapdims_(0, 2),
    lambda: X.__rdiv__(2), lambda: torch.sort(X, 1, descending=True, stable=True)[0],
])  # fmt: skip
def test_a_mode_that_hands_on_changes_nothing(call):
    alone = call()
    with Seen() as seen:
        made = call()
    assert seen.calls
    assert made.dtype is alone.dtype and made.stride() == alone.stride()
    assert [str(n) for n in made.flatten().tolist()] == [str(n) for n in alone.flatten().tolist()]


def test_forms_of_a_variance_are_one_operator():
    with Seen() as seen:
        X.var(), X.var(False), X.var(1), X.var(1, True), X.std(dim=1, keepdim=True), X.var(correction=2)
    assert seen.calls == [
        ("aten.var.correction", (), {}), ("aten.var.correction", (), {"correction": 0}),
        ("aten.var.correction", ([1],), {"correction": 1}), ("aten.var.correction", ([1],), {"correction": 1}),
        ("aten.std.correction", ([1],), {"correction": 1, "keepdim": True}), ("aten.var.correction", (), {"correction": 2}),
    ]  # fmt: skip


def test_what_is_taken_for_a_default():
    assert alike(0.0, 0.0) and alike((1, 2), (1, 2)) and alike(None, None) and alike("mean", "mean")
    for value, default in ((-0.0, 0.0), (0.0, -0.0), (1, 1.0), (True, 1), (0, None), (math.nan, 0.0), ([1], (1,))):
        assert not alike(value, default)


def test_methods_in_another_order_than_their_operator_are_exported():
    class Chosen(torch.nn.Module):
        def forward(self, x):
            return x.where(x > 1, 0.0), x.__rdiv__(2)

    x = torch.tensor([0.5, 2.0])
    program = torch.export.export(Chosen(), (x,))
    for mine, wanted in zip(program.module()(x * 3), Chosen()(x * 3), strict=True):
        assert torch.equal(mine, wanted)
    with pytest.warns(DeprecationWarning):
        traced = torch.jit.trace(lambda x: x.where(x > 1, 0.0), x)
    assert torch.equal(traced(x * 3), (x * 3).where(x * 3 > 1, 0.0))


def test_functions_that_are_loaded_inside_a_mode_are_seen(run_python):
    made = run_python(
        "-c",
        """
import sys
import flambeau as torch
from flambeau.core.operator.arguments import alike
from flambeau.utils._python_dispatch import TorchDispatchMode

class Names(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        print(func)
        return func(*args, **(kwargs or {}))

x = torch.ones(2)
with Names():
    torch.relu(x)
    assert "flambeau.special" not in sys.modules
    torch.special.polygamma(1, x)
    torch.special.gammaln(x)
""",
    )
    assert made.stdout.split() == ["aten.relu.default", "aten.polygamma.default", "aten.lgamma.default"]

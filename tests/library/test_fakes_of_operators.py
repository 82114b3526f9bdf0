"""Programs' own operators on fake tensors: what their fakes may ask, what is refused, and opcheck's comparison."""

from __future__ import annotations

import itertools

import pytest
from implementation import torch

from flambeau._subclasses.fake_tensor import (
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    MetadataMismatchError,
    UnsupportedOperatorException,
)
from flambeau.library import custom_op, get_ctx, opcheck

_numbers = itertools.count()


def made(body, fake=None, **options):
    """An operator of a fresh name."""
    operator = custom_op(f"fakes{next(_numbers)}::op", mutates_args=(), **options)(body)
    if fake is not None:
        operator.register_fake(fake)
    return operator


def double(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * 2)


def test_the_fake_answers_inside_the_mode():
    mode, seen, real = FakeTensorMode(), [], torch.ones(2)

    def fake(x):
        seen.append(type(torch.empty(1)))
        return torch.empty_like(x)

    operator = made(double, fake)
    result = operator(mode.from_tensor(torch.ones(3)))
    assert type(result) is FakeTensor and result.shape == (3,) and seen == [FakeTensor]
    with mode:
        assert type(operator(torch.ones(2))) is FakeTensor
    assert operator(real).tolist() == [2.0, 2.0]
    with mode, pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors first"):
        operator(real)


def test_an_operator_without_a_fake():
    fake = FakeTensorMode().from_tensor(torch.ones(3))
    with pytest.raises(RuntimeError, match="There was no fake impl registered for"):
        made(double)(fake)
    library = torch.library.Library(f"fakes{next(_numbers)}", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", torch.sin, "CPU")
    operator = getattr(torch.ops, library.ns).f
    with pytest.raises(UnsupportedOperatorException) as raised:
        operator(fake)
    assert str(raised.value) == f"{library.ns}.f.default" and raised.value.func is operator.default


def test_sizes_that_depend_on_values_have_no_names():
    def fake(x):
        return x.new_empty((get_ctx().new_dynamic_size(),), dtype=torch.int64)

    operator = made(lambda x: x.nonzero()[:, 0], fake, schema="(Tensor x) -> Tensor")
    with pytest.raises(DynamicOutputShapeException) as raised:
        operator(FakeTensorMode().from_tensor(torch.ones(3)))
    assert raised.value.func is operator._opoverload
    with pytest.raises(RuntimeError, match="You're trying to run this operator with meta Tensors"):
        operator(torch.ones(3, device="meta"))
    assert opcheck(operator, (torch.ones(3),), test_utils="test_faketensor") == {"test_faketensor": "SUCCESS"}
    assert get_ctx() is None


def test_gradients_and_writes():
    mode = FakeTensorMode()
    operator = made(double, torch.empty_like)
    operator.register_autograd(lambda ctx, g: g * 2)
    x = mode.from_tensor(torch.ones(3, requires_grad=True))
    operator(x).sum().backward()
    assert type(x.grad) is FakeTensor

    def write(x: torch.Tensor) -> None:
        x.add_(1)

    operator = custom_op(f"fakes{next(_numbers)}::op", mutates_args=("x",))(write)
    fake = mode.from_tensor(torch.ones(3))
    before = fake._version
    operator(fake)
    assert fake._version == before + 1


@pytest.mark.parametrize(
    ("fake", "words"),
    [
        (lambda x: x.new_empty((1,)), "Shapes torch.Size([3, 4]) and torch.Size([1]) are not equal!"),
        (lambda x: x.new_empty((3, 4), dtype=torch.int64), "Dtypes torch.float32 and torch.int64 are not equal!"),
        (lambda x: x.new_empty((4, 3)).t(), "Stride mismatch! Strides are (4, 1) and (1, 3) (mismatched at 0)!"),
        (lambda x: x.new_empty((3, 4), device="meta"), "Devices cpu and meta are not equal!"),
        (lambda x: x.new_empty(13)[1:].view(3, 4), " mismatched storage offset"),
    ],
)
def test_opcheck_compares_with_the_fake(fake, words):
    operator = made(lambda x: x.clone(), fake, schema="(Tensor x) -> Tensor")
    found = opcheck(operator, (torch.ones(3, 4),), test_utils="test_faketensor", raise_exception=False)["test_faketensor"]
    assert type(found) is MetadataMismatchError
    assert str(found) == (
        f"When comparing the output of {operator._opoverload} on FakeTensor and concrete Tensors, found "
        f"mismatched tensor metadata: {words}"
    )

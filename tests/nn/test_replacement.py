"""torch.__future__: whether conversions of a module write into its parameters, put others in their place or swap them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest

import flambeau as torch
from flambeau import nn


@pytest.fixture
def swapping() -> Iterator[None]:
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


@pytest.fixture
def overwriting() -> Iterator[None]:
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    yield
    torch.__future__.set_overwrite_module_params_on_conversion(False)


def test_overwriting_leaves_the_former_parameter_alone(overwriting: None) -> None:
    layer = nn.Linear(2, 3)
    weight = layer.weight
    layer.weight.grad = torch.ones(3, 2)
    layer.double()
    assert layer.weight is not weight and weight.dtype == torch.float32 and weight.grad.dtype == torch.float32
    assert layer.weight.grad.dtype == torch.float64


def test_swapping_keeps_the_parameter(swapping: None) -> None:
    layer = nn.Linear(2, 3)
    weight = layer.weight
    layer(torch.ones(1, 2)).sum().backward()
    gradient = weight.grad
    layer.double()
    assert layer.weight is weight and weight.dtype == torch.float64 and weight.requires_grad and weight.is_leaf
    assert weight.grad is gradient and gradient.dtype == torch.float64
    layer(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
    assert weight.grad.tolist() == [[2, 2]] * 3


def test_a_graph_from_before_the_swap_is_refused(swapping: None) -> None:
    layer = nn.Linear(2, 3, bias=False)
    x = torch.ones(1, 2, requires_grad=True)
    made = layer(x) + layer.weight.sum()
    layer.double()
    with pytest.raises(RuntimeError):
        made.sum().backward()
    end = torch.ones(2, requires_grad=True)
    total = (end + 1).sum()
    torch.utils.swap_tensors(end, torch.zeros(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        total.backward()


def test_a_watched_parameter_is_not_swapped(swapping: None) -> None:
    layer = nn.Linear(2, 3)
    watch = weakref.ref(layer.weight)
    with pytest.raises(RuntimeError, match=r"Couldn't swap Linear.weight"):
        layer.half()
    assert watch() is layer.weight and layer.weight.dtype == torch.float32
    del watch
    assert layer.half().weight.dtype == torch.float16


def test_loading_by_swapping(swapping: None) -> None:
    layer = nn.Linear(2, 3)
    weight, values = layer.weight, {name: torch.ones_like(x) for name, x in layer.state_dict().items()}
    layer.load_state_dict(values)
    assert layer.weight is weight and isinstance(weight, nn.Parameter) and weight.tolist() == [[1, 1]] * 3
    layer.load_state_dict({name: x.double() for name, x in values.items()}, assign=True)
    assert layer.weight is weight and weight.dtype == torch.float64


def test_swapped_tensors_exchange_attributes_and_gradients() -> None:
    first, second = torch.ones(2), torch.zeros(3, requires_grad=True)
    first.name_of_mine = "first"
    torch.utils.swap_tensors(first, second)
    assert second.name_of_mine == "first" and first.shape == (3,) and first.requires_grad and not second.requires_grad
    (first * 2).sum().backward()
    assert first.grad.tolist() == [2, 2, 2]


def test_swapped_tensors_exchange_their_identity() -> None:
    first, second, third = torch.ones(2), torch.zeros(3), torch.ones(1)
    numbers = first._cdata, second._cdata
    assert len({*numbers, third._cdata}) == 3
    first.data = torch.zeros(4)
    assert first._cdata == numbers[0]
    torch.utils.swap_tensors(first, second)
    assert (second._cdata, first._cdata) == numbers
    torch.utils.swap_tensors(first, second)
    assert (first._cdata, second._cdata) == numbers


class Unfinished(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.Tensor.module_load:
            return args[1]
        return super().__torch_function__(function, types, args, kwargs)


@pytest.mark.parametrize("assign", [False, True])
def test_a_class_answers_for_what_is_loaded_of_it(assign):
    model, state = torch.nn.Linear(2, 2, bias=False), {"weight": torch.ones(2, 2).as_subclass(Unfinished)}
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with pytest.raises(RuntimeError, match=r"While swapping the parameter named .*module_load returned one of self or other"):
            model.load_state_dict(state, assign=assign)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated")
def test_compiled_modules_keep_their_own_tensors():
    for made in (torch.jit.script(torch.nn.Linear(1, 1)), torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1))):
        with pytest.raises(RuntimeError, match="The stateless API can't be used with Jitted modules"):
            torch.func.functional_call(made, dict(made.named_parameters()), torch.ones(1))


class Doubled(torch.Tensor):
    """A class that dispatches, over a plain tensor."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        plain = torch.utils._pytree.tree_map_only(Doubled, lambda x: x.inner, (args, kwargs or {}))
        made = Doubled(function(*plain[0], **plain[1]))
        return torch.utils._python_dispatch.return_and_correct_aliasing(function, args, kwargs or {}, made)


class Wrapped(nn.Module):
    def forward(self, x):
        return x if isinstance(x, Doubled) else Doubled(x)


class Inverse(Wrapped):
    def right_inverse(self, x):
        return Doubled(x)


@pytest.mark.parametrize("swaps", [False, True])
def test_what_is_computed_takes_the_place_of_a_parameter_with_its_class(swaps):
    parametrize = torch.nn.utils.parametrize
    torch.__future__.set_swap_module_params_on_conversion(swaps)
    try:
        for parametrization, left in ((Wrapped, True), (Wrapped, False), (Inverse, False)):
            layer = nn.Linear(2, 2)
            before, address = layer.weight.detach().clone(), id(layer.weight)
            parametrize.register_parametrization(layer, "weight", parametrization())
            first = type(layer.parametrizations.weight.original)
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=left)
            assert first is (Doubled if parametrization is Inverse and swaps else nn.Parameter)
            assert type(layer.weight) is (Doubled if swaps and (left or parametrization is Inverse) else nn.Parameter)
            assert isinstance(layer.weight, nn.Parameter) and id(layer.weight) == address
            if swaps:
                inner = layer.weight.inner if isinstance(layer.weight, Doubled) else layer.weight
                assert torch.equal(inner.detach(), before)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)

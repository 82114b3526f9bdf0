"""Tensors that hold tensors and answer operators below autograd: `_make_wrapper_subclass` and `__torch_dispatch__`."""

import copy
import gc
import io

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.utils import _pytree as pytree
from flambeau.utils._python_dispatch import (
    TorchDispatchMode,
    is_traceable_wrapper_subclass,
    return_and_correct_aliasing,
    transform_subclass,
)

SEEN = []


class Two(torch.Tensor):
    """A pair of tensors of one shape; whatever is done to it is done to both."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            a.shape,
            strides=a.stride(),
            storage_offset=a.storage_offset(),
            dtype=a.dtype,
            device=a.device,
            layout=a.layout,
            requires_grad=a.requires_grad,
        )

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __repr__(self):
        return f"Two({self.a}, {self.b})"

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return Two(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        SEEN.append(str(func).removeprefix("aten."))
        kwargs = kwargs or {}

        def part(name):
            def chosen(x):
                return getattr(x, name) if isinstance(x, Two) else x

            return func(*pytree.tree_map(chosen, args), **pytree.tree_map(chosen, kwargs))

        first, spec = pytree.tree_flatten(part("a"))
        second = pytree.tree_leaves(part("b"))
        made = [Two(x, y) if isinstance(x, torch.Tensor) else x for x, y in zip(first, second)]
        return return_and_correct_aliasing(func, args, kwargs, pytree.tree_unflatten(made, spec))


class PlainTwo(Two):
    __torch_function__ = torch._C._disabled_torch_function_impl


@pytest.fixture(autouse=True)
def seen():
    SEEN.clear()
    return SEEN


def model_of(kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
    for module in model:
        for name, p in list(module._parameters.items()):
            module._parameters[name] = torch.nn.Parameter(kind(p.detach().clone()))
    return model


def two(x):
    return Two(x, x * 1)


X = torch.arange(6.0).reshape(2, 3) / 5
TARGET = torch.tensor([0, 1])


@pytest.mark.parametrize("cls", [Two, PlainTwo])
def test_operators_are_answered_by_the_class(cls, seen):
    x = cls(X, X + 1)
    made = [x + 1, x.sum(1), x.t(), x[0], x @ x.t(), torch.cat([x, x]), x.reshape(3, 2)]
    assert all(isinstance(y, Two) for y in made)
    expected = [X + 2, (X + 1).sum(1), (X + 1).t(), X[0] + 1, (X + 1) @ (X + 1).t(), torch.cat([X + 1, X + 1]), X.view(3, 2) + 1]
    torch.testing.assert_close([y.b for y in made], expected)
    assert [tuple(y.shape) for y in made] == [tuple(y.shape) for y in expected]
    assert seen[:3] == ["add.Tensor", "sum.dim_IntList", "t.default"]


def test_gradients_are_recorded_for_the_outer_call(seen):
    x = Two(torch.ones(2, 3), torch.full((2, 3), 2.0)).requires_grad_()
    z = (x * x).exp().sum()
    assert [z.grad_fn.name(), z.grad_fn.next_functions[0][0].name()] == ["SumBackward0", "ExpBackward0"]
    assert not z.a.requires_grad
    z.backward()
    assert isinstance(x.grad, Two)
    torch.testing.assert_close(x.grad.b, 4 * torch.full((2, 3), 4.0).exp())
    assert seen.count("mul.Tensor") == 4 and "ones_like.default" in seen


@pytest.mark.parametrize("optimizer_of", [torch.optim.AdamW, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)])
def test_a_module_of_such_parameters_trains_as_two_modules(optimizer_of):
    model, plain = model_of(two), model_of(lambda x: x)
    for m, given in ((model, two(X)), (plain, X)):
        optimizer = optimizer_of(m.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(m(given), TARGET).backward()
            optimizer.step()
    for p, q in zip(model.parameters(), plain.parameters()):
        assert isinstance(p, Two) and isinstance(p, torch.nn.Parameter) and isinstance(p.grad, Two)
        torch.testing.assert_close(p.a.detach(), q.detach())
        torch.testing.assert_close(p.grad.b, q.grad)


def test_backward_passes_are_seen_by_pytorchs_names(seen):
    model = model_of(two)
    loss = F.cross_entropy(model(two(X)), TARGET)
    assert seen[-9:] == [
        "addmm.default",
        "relu.default",
        "detach.default",
        "native_layer_norm.default",
        "t.default",
        "addmm.default",
        "_log_softmax.default",
        "detach.default",
        "nll_loss_forward.default",
    ]
    seen.clear()
    loss.backward()
    named = [x for x in seen if x.startswith(("nll", "_log", "native", "threshold", "mm"))]
    assert named == [
        "nll_loss_backward.default",
        "_log_softmax_backward_data.default",
        "mm.default",
        "mm.default",
        "native_layer_norm_backward.default",
        "threshold_backward.default",
        "mm.default",
    ]


def test_copies_and_files_keep_what_is_wrapped():
    model = model_of(two)
    copied = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    copied.load_state_dict({name: two(x.a * 2) for name, x in loaded.items()})
    for p, q in zip(model.parameters(), copied.parameters()):
        assert type(q) is Two and q.requires_grad
        torch.testing.assert_close(q.a, p.a.detach() * 2)
    assert next(model.to(torch.float64).parameters()).a.dtype is torch.float64


def test_writes_are_recorded():
    x = two(X).requires_grad_()
    y = x * 2
    y.add_(1).mul_(y.detach().clone())
    y.sum().backward()
    torch.testing.assert_close(x.grad.a, 2 * (2 * X + 1))
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(1)


def test_views_are_views():
    x = two(X).requires_grad_()
    y = x.t()
    assert y._is_view() and y._base is x and y.grad_fn.name() == "TBackward0"
    y[0].sum().backward()
    torch.testing.assert_close(x.grad.a, torch.tensor([[1.0, 0, 0], [1, 0, 0]]))


def test_what_it_is_made_of():
    x = two(X)
    assert is_traceable_wrapper_subclass(x) and not is_traceable_wrapper_subclass(X)
    made = transform_subclass(x, lambda name, inner: inner + 1)
    assert isinstance(made, Two)
    torch.testing.assert_close(made.b, X + 1)


def test_modes_come_before_classes():
    class Log(TorchDispatchMode):
        names = ()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names = (*self.names, (str(func), types))
            return func(*args, **(kwargs or {}))

    class Declines(Log):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented if types else super().__torch_dispatch__(func, types, args, kwargs)

    with Log() as log:
        two(X) + X
    assert log.names[-1] == ("aten.add.Tensor", (Two,))
    x = two(X)
    with Declines() as log:
        x + 1
    assert log.names == (("aten.add.Tensor", ()), ("aten.add.Tensor", ()))


def test_nobody_answers():
    class Refuses(Two):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch._ops.aten.add.Tensor'; all __torch_dispatch__"):
        Refuses(X, X) + 1
    with pytest.raises(TypeError, match="must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(type("Bare", (torch.Tensor,), {}), (2,))


class Quantized(torch.Tensor):
    """A matrix of int8 and the scale of each row; products and copies are all that is done to it."""

    @staticmethod
    def __new__(cls, values, scales, dtype):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, strides=values.stride(), dtype=dtype, device=values.device)

    def __init__(self, values, scales, dtype):
        self.values_, self.scales = values, scales

    @classmethod
    def of(cls, x):
        scales = x.abs().amax(1, keepdim=True) / 127
        return cls((x / scales).round().to(torch.int8), scales, x.dtype)

    def dense(self):
        return self.values_.to(self.scales.dtype) * self.scales

    def _each(self, change):
        return Quantized(change(self.values_), change(self.scales), self.dtype)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        aten = torch.ops.aten
        kwargs = kwargs or {}
        if func in (aten.detach.default, aten.clone.default, aten.t.default):
            return return_and_correct_aliasing(func, args, kwargs, args[0]._each(lambda x: func(x)))
        if func is aten._to_copy.default:
            return Quantized(args[0].values_, args[0].scales, kwargs["dtype"])
        if func in (aten.mm.default, aten.addmm.default):
            return func(*[x.dense() if isinstance(x, Quantized) else x for x in args])
        raise NotImplementedError(str(func))


def test_a_quantized_weight():
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 4)
    x = torch.randn(3, 8, requires_grad=True)
    expected = layer(x)
    layer.weight = torch.nn.Parameter(Quantized.of(layer.weight.detach()), requires_grad=False)
    made = layer(x)
    torch.testing.assert_close(made, expected, atol=0.02, rtol=0.02)
    made.sum().backward()
    torch.testing.assert_close(x.grad, layer.weight.dense().sum(0).expand(3, 8))
    assert layer.to(torch.float64).weight.dtype is torch.float64
    with pytest.raises(NotImplementedError, match=r"aten\.sin\.default"):
        layer.weight.sin()


def test_nothing_is_looked_for_when_no_such_tensor_lives():
    gc.collect()  # what other tests left in cycles
    X.t()
    generated, by_hand = torch.add.__code__, torch.Tensor.t.__code__
    x = two(X)
    assert torch.add.__code__ is generated  # looks by itself
    assert torch.Tensor.t.__code__ is not by_hand
    del x
    X.t()  # finds that nobody is left
    assert torch.Tensor.t.__code__ is by_hand


@pytest.mark.parametrize("policy", [None, "strides", "sizes"])
def test_a_class_answers_for_its_geometry(policy):
    seen = []
    answers = {"sym_size": (11, 12), "sym_stride": (12, 1), "sym_numel": 132, "dim": 2, "sym_storage_offset": 3,
               "is_contiguous": True}  # fmt: skip

    class Sized(torch.Tensor):
        @staticmethod
        def __new__(cls, data):
            return torch.Tensor._make_wrapper_subclass(
                cls, data.size(), strides=data.stride(), dtype=data.dtype, dispatch_sizes_strides_policy=policy
            )

        def __init__(self, data):
            self.data_ = data

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            name = func.overloadpacket.__name__
            if name in answers:
                seen.append(name)
                return answers[name]
            return func(*[x.data_ if isinstance(x, cls) else x for x in args], **(kwargs or {}))

    x = Sized(torch.ones(3, 4))
    shape, steps = (11, 12) if policy == "sizes" else (3, 4), (4, 1) if policy is None else (12, 1)
    assert x.shape == x.size() == torch.Size(shape) and len(x) == x.size(0) == x.size(-2) == shape[0]
    assert x.stride() == steps and x.stride(0) == steps[0] and x.is_contiguous()
    assert x.numel() == x.nelement() == shape[0] * shape[1] and x.dim() == x.ndim == 2
    assert x.storage_offset() == (3 if policy == "sizes" else 0)
    wanted = {None: set(), "strides": {"sym_stride", "is_contiguous"}, "sizes": set(answers)}
    assert set(seen) == wanted[policy]
    if policy:
        answers["sym_stride"] = NotImplemented
        with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch.ops.aten.sym_stride'; all __torch_dispatch__"):
            x.stride()
        answers.update(sym_stride=None, is_contiguous=None, sym_size=None)  # as it was made
        assert x.stride() == (4, 1) and x.stride(0) == 4 and x.is_contiguous() and x.shape == (3, 4)
    assert (x + 1).shape == (3, 4)


def test_a_class_answers_for_its_device_and_layout():
    class Placed(torch.Tensor):
        @staticmethod
        def __new__(cls, data):
            return torch.Tensor._make_wrapper_subclass(cls, data.size(), dispatch_device=True, dispatch_layout=True)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func is torch.ops.prim.device.default:
                return torch.device("meta")
            return torch.sparse_coo if func is torch.ops.prim.layout.default else NotImplemented

    x = Placed(torch.ones(3))
    assert x.device.type == "meta" and x.layout is torch.sparse_coo
    with pytest.raises(ValueError, match="Unknown sizes_strides_policy: foo; expected 'strides' or 'sizes'"):
        torch.Tensor._make_wrapper_subclass(Placed, (2,), dispatch_sizes_strides_policy="foo")


def test_a_class_over_memory_answers_for_its_geometry():
    class Sized(torch.Tensor):
        @staticmethod
        def __new__(cls, data):
            return torch.Tensor._make_subclass(cls, data, dispatch_sizes_strides_policy="strides")

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return (7, 1) if func is torch.ops.aten.sym_stride.default else NotImplemented

    x = Sized(torch.ones(3, 3))
    assert x.stride() == (7, 1) and x.shape == (3, 3)
    with pytest.raises(ValueError, match="Unknown sizes_strides_policy: sizs"):
        torch.Tensor._make_subclass(Sized, torch.ones(3), dispatch_sizes_strides_policy="sizs")


def test_a_class_answers_for_moves_to_meta(seen):
    x = Two(torch.ones(2, 3), torch.zeros(2, 3))
    for move in (lambda: x.to("meta"), lambda: x.to("meta", torch.float64), lambda: x.to(torch.empty(0, device="meta"))):
        seen.clear()
        moved = move()
        assert seen == ["_to_copy.default"] and type(moved) is Two and moved.b.is_meta and moved.is_meta
    assert type(x.to("meta").clone()) is Two
    model = torch.nn.Linear(3, 2)
    model.weight = torch.nn.Parameter(x, requires_grad=False)
    assert type(model.to("meta").weight.data) is Two


def test_whether_data_may_be_replaced():
    x = torch.ones(2, 3)
    may = torch._has_compatible_shallow_copy_type
    assert may(x, torch.ones(4, dtype=torch.float64)) and may(torch.nn.Parameter(x), x)
    assert not (may(x, x.to_sparse()) or may(x.to_sparse(), x) or may(x, x.to("meta")))


class Opened(Two):
    """A pair whose operators give plain tensors: those of its first part."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*pytree.tree_map(lambda x: x.a if isinstance(x, Opened) else x, args), **(kwargs or {}))


@pytest.mark.parametrize("function", [torch.tanh, torch.sigmoid, torch.exp, lambda x: torch.softmax(x, 0)])
def test_results_that_backward_needs_may_be_plain(function):
    x = torch.linspace(-1, 1, 5)
    opened, plain = Opened(x.clone(), x.clone()).requires_grad_(), x.clone().requires_grad_()
    made = function(opened)
    assert type(made) is torch.Tensor and made.requires_grad
    made.square().sum().backward()
    function(plain).square().sum().backward()
    torch.testing.assert_close(opened.grad, plain.grad)

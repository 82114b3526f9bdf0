"""Modes below autograd: which operators they see, by PyTorch's names, and what they can do to them."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
    is_in_torch_dispatch_mode,
)


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((str(func), args, kwargs or {}))
        return func(*args, **(kwargs or {}))

    @property
    def names(self):
        return [name.removeprefix("aten.") for name, _, _ in self.calls]


X = torch.arange(6.0).reshape(2, 3) / 5
I = torch.arange(6).reshape(2, 3)
IMAGE = torch.ones(1, 1, 4, 4)

#: What PyTorch 2.13's dispatcher sees of each.
SEEN = {
    "X + 1": "add.Tensor", "X * 2": "mul.Tensor", "X ** 2": "pow.Tensor_Scalar", "2 ** X": "pow.Scalar",
    "X == 1": "eq.Scalar",
    "X.fmod(2)": "fmod.Scalar", "X % 2": "remainder.Scalar", "I & 1": "bitwise_and.Scalar",
    "X // 2": "floor_divide.default",
    "X.clamp(0, 1)": "clamp.default", "X.sum()": "sum.default", "X.sum(1)": "sum.dim_IntList", "X.mean(1)": "mean.dim",
    "X.max()": "max.default", "X.max(1)": "max.dim", "X.view(3, 2)": "view.default", "X.reshape(3, 2)": "view.default",
    "X.t()": "t.default", "X.T": "permute.default", "X[0]": "select.int", "X[:, 1:]": "slice.Tensor",
    "X[I[0] % 2]": "select.int remainder.Scalar index.Tensor", "X.softmax(1)": "_softmax.default",
    "F.gelu(X)": "gelu.default",
    "F.linear(X, X, X[:, 0])": "select.int t.default addmm.default", "X @ X.t()": "t.default mm.default",
    "torch.zeros(2)": "zeros.default", "torch.randn(2)": "randn.default", "torch.arange(3)": "arange.default",
    "torch.tensor([1.0])": "lift_fresh.default", "X.clone()": "clone.default",
    "X.to(torch.float64)": "_to_copy.default",
    "X.double()": "_to_copy.default", "X.contiguous()": "", "X.split(1)": "split.Tensor", "X.unbind()": "unbind.int",
    "torch.cat([X, X])": "cat.default", "torch.stack([X, X])": "stack.default",
    "F.layer_norm(X, (3,))": "native_layer_norm.default",
    "F.cross_entropy(X, I[0, :2])": "select.int slice.Tensor _log_softmax.default nll_loss_forward.default",
    "F.dropout(X)": "empty_like.default bernoulli_.float div_.Scalar mul.Tensor", "F.relu(X)": "relu.default",
    "X.masked_fill(X > 0, 0)": "gt.Scalar masked_fill.Scalar", "X.std()": "std.correction",
    "X.norm()": "linalg_vector_norm.default",
    "F.embedding(I % 2, X)": "remainder.Scalar embedding.default",
    "X[0, 0].item()": "select.int select.int _local_scalar_dense.default",
    "X.expand(2, 2, 3)": "expand.default", "X.sort()": "sort.default", "X.topk(2)": "topk.default",
    "F.conv2d(IMAGE, IMAGE)": "convolution.default", "F.max_pool2d(IMAGE, 2)": "max_pool2d_with_indices.default",
    "F.scaled_dot_product_attention(IMAGE, IMAGE, IMAGE)": "_scaled_dot_product_flash_attention_for_cpu.default",
    "X.flatten()": "view.default", "X.detach()": "detach.default", "X.any()": "any.default",
    "F.mse_loss(X, X)": "mse_loss.default",
    "X.argmax()": "argmax.default", "X.nonzero()": "nonzero.default", "torch.full((2,), 1.0)": "full.default",
    "torch.ones_like(X)": "ones_like.default", "X.new_zeros(2)": "new_zeros.default",
    "torch.empty(2)": "empty.memory_format",
    "X.clone().zero_()": "clone.default zero_.default", "X.clone().add_(1)": "clone.default add_.Tensor",
    "X.clone().copy_(X)": "clone.default copy_.default", "X.clone().uniform_()": "clone.default uniform_.default",
    "X.clone().relu_()": "clone.default relu_.default",
    "torch.bernoulli(X.clamp(0, 1))": "clamp.default bernoulli.default",
}  # fmt: skip


@pytest.mark.parametrize("code", SEEN)
def test_operators_are_seen_as_pytorchs_dispatcher_names_them(code):
    expected = eval(code)
    with Log() as log:
        result = eval(code)
    assert " ".join(log.names) == SEEN[code]
    assert type(result) is type(expected)


def test_arguments_are_those_of_the_schema():
    with Log() as log:
        X.sum(1, keepdim=True)
        X.view(3, 2)
        torch.add(X, X, alpha=2)
        X.std(1)
    assert [args[1:] for _, args, _ in log.calls] == [([1], True), ([3, 2],), (X,), ([1],)]
    assert log.calls[2][2] == {"alpha": 2}


def test_a_mode_answers_in_the_place_of_the_operator():
    class Double(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.ops.aten.exp.default else result

    with Double():
        assert torch.exp(torch.zeros(2)).tolist() == [2, 2]
    assert torch.exp(torch.zeros(2)).tolist() == [1, 1]


def test_what_a_mode_calls_belongs_to_the_modes_outside():
    class Replace(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return torch.sub(*args) if func is torch.ops.aten.add.Tensor else func(*args, **(kwargs or {}))

    with Log() as outer, Replace():
        (X + X).sum()
    assert outer.names == ["sub.Tensor", "sum.default"]


def test_backward_passes_and_optimizers_are_seen():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with Log() as log:
        (w.exp() * w).sum().backward()
    assert log.names[:4] == ["exp.default", "detach.default", "mul.Tensor", "sum.default"]
    assert log.names[4:] == [
        "ones_like.default",
        "expand.default",
        "mul.Tensor",
        "mul.Tensor",
        "detach.default",
        "mul.Tensor",
        "add.Tensor",
        "detach.default",
    ]
    torch.testing.assert_close(w.grad, w.detach().exp() * (1 + w.detach()))
    reference = w.detach().clone().requires_grad_()
    reference.grad = w.grad.clone()
    with Log() as log:
        torch.optim.AdamW([w], lr=0.1).step()
    torch.optim.AdamW([reference], lr=0.1).step()
    assert {"lerp.Scalar", "sqrt.default", "copy_.default"} <= set(log.names)
    torch.testing.assert_close(w, reference)


def test_gradients_are_the_same_under_a_mode():
    def gradients():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(8, 3))
        F.cross_entropy(model(IMAGE + torch.rand(1, 1, 4, 4)), torch.tensor([1])).backward()
        return [p.grad for p in model.parameters()]

    expected = gradients()
    with Log() as log:
        found = gradients()
    torch.testing.assert_close(found, expected)
    assert "convolution.default" in log.names and "addmm.default" in log.names


def test_operators_of_this_package_alone_are_seen_under_its_name():
    with Log() as log:
        torch.nn.functional.rrelu(X)
    assert any(name.startswith("flambeau.") for name in log.names)


def test_which_modes_are_on():
    assert not is_in_torch_dispatch_mode() and _get_current_dispatch_mode() is None
    with Log() as log:
        assert is_in_torch_dispatch_mode() and _get_current_dispatch_mode() is log
        with _disable_current_modes():
            torch.zeros(1)
            assert not is_in_torch_dispatch_mode()
    assert log.names == []
    with pytest.raises(ValueError), log:
        raise ValueError
    torch.zeros(1)
    assert log.names == []


@pytest.mark.parametrize("transformed", [
    lambda x: torch.func.hessian(lambda y: (y**3).sum())(x), lambda x: torch.func.grad(lambda y: y.sin().sum())(x),
    lambda x: torch.vmap(lambda y: y.exp().sum())(x), lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1],
])  # fmt: skip
def test_transforms_are_the_same_under_a_mode(transformed):
    expected = transformed(X)
    with Log() as log:
        found = transformed(X)
    torch.testing.assert_close(found, expected)
    assert log.names


def test_views_where_nothing_is_recorded_keep_what_they_show():
    x = X.clone().requires_grad_()
    with Log(), torch.no_grad():
        assert x.t().requires_grad and not (x * 2).requires_grad


def test_a_mode_may_call_its_attributes_what_it_likes():
    class Named(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.called, self.reads, self.control_flow = set(), {}, []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.called.add(func)
            return func(*args, **(kwargs or {}))

    with Named() as mode:
        torch.sin(X).tolist()
    assert torch.ops.aten.sin.default in mode.called

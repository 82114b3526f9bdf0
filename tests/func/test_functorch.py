"""The package functorch and torch._functorch, the vmap before torch.vmap, switches of vmap, aux and hooks in transforms."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pytest

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._functorch import make_functional as apart
from flambeau._functorch.apis import chunk_vmap
from flambeau._functorch.eager_transforms import _slice_argnums
from flambeau._vmap_internals import _vmap
from flambeau.autograd import Function, forward_ad
from flambeau.func import grad, jacfwd, jacrev, jvp, vjp, vmap


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.second = torch.nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.second(self.first(x)))


def test_a_module_apart_from_its_parameters() -> None:
    model, x = Tied(), torch.randn(4, 3)
    func, params, buffers = apart.make_functional_with_buffers(model)
    assert func.param_names == ("first.weight", "first.bias", "second.bias", "norm.weight", "norm.bias")
    assert len(params) == 5 and len(buffers) == 3
    assert params[0] is not model.first.weight and params[0].is_leaf
    assert all(p.device.type == "meta" for p in func.parameters())
    torch.testing.assert_close(func(params, buffers, x), model(x))
    with pytest.raises(RuntimeError, match="`model` has buffers"):
        apart.make_functional(model)
    _, quiet = apart.make_functional(torch.nn.Linear(2, 2), disable_autograd_tracking=True)
    assert not any(p.requires_grad for p in quiet)


def test_an_ensemble_is_mapped_over() -> None:
    models, x = [torch.nn.Linear(3, 2) for _ in range(4)], torch.randn(5, 3)
    func, params, buffers = apart.combine_state_for_ensemble(models)
    torch.testing.assert_close(vmap(func, (0, 0, None))(params, buffers, x), torch.stack([m(x) for m in models]))
    with pytest.raises(RuntimeError, match="at least one model"):
        apart.combine_state_for_ensemble([])
    weights, one, names = apart.functional_init(torch.nn.Linear, (6,))(3, 2)
    assert weights[0].shape == (6, 2, 3) and names == ("weight", "bias")
    assert vmap(one, (0, None))(weights, (x,)).shape == (6, 5, 2)


def test_the_package_functorch() -> None:
    program = (
        "import functorch, torch, functorch.experimental as e, warnings\n"
        "with warnings.catch_warnings(record=True) as w:\n"
        "    warnings.simplefilter('always')\n"
        "    print(functorch.vmap(torch.sin)(torch.zeros(2)).tolist(), w[0].category.__name__)\n"
        "assert 'Please use `torch.vmap` instead' in str(w[0].message)\n"
        "print(functorch.make_functional.__module__, e.chunk_vmap.__name__)\n"
    )
    command = [sys.executable, "-c", f"from flambeau_torch import redirection; redirection.install()\n{program}"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out == "[0.0, 0.0] FutureWarning\ntorch._functorch.make_functional chunk_vmap\n"


def test_arguments_chosen_and_chunks() -> None:
    assert _slice_argnums((1, 2, 3), -1) == (3,) and _slice_argnums((1, 2, 3), (2, 0)) == (3, 1)
    assert _slice_argnums((1, 2, 3), 1, as_tuple=False) == 2
    with pytest.raises(RuntimeError, match="must be unique, got \\(0, 0\\)"):
        grad(torch.mul, argnums=(0, -2))(torch.tensor(1.0), torch.tensor(2.0))
    x = torch.arange(5.0)
    assert torch.equal(chunk_vmap(torch.sin, chunks=2)(x), x.sin())


def test_the_older_vmap() -> None:
    x = torch.randn(2, 3)
    assert torch.equal(_vmap(lambda row: (row.sum(), row * 2), in_dims=1, out_dims=(0, 1))(x)[1], x * 2)
    with pytest.raises(ValueError, match="expected in_dim to satisfy 0 <= in_dim < 2"):
        _vmap(torch.sin, in_dims=-1)(x)
    with pytest.raises(ValueError, match="must only return Tensors, got type <class 'int'> for return 1"):
        _vmap(lambda row: (row, 1))(x)
    with pytest.raises(ValueError, match="must have one dim per output"):
        _vmap(torch.sin, out_dims=(0, 0))(x)


def test_the_fallback_is_switched_off_and_quiet() -> None:
    x, functorch = torch.rand(2, 5), torch._C._functorch

    def histogram(row: torch.Tensor) -> torch.Tensor:
        return torch.histc(row, bins=2, min=0, max=1)

    with pytest.warns(UserWarning, match="performance drop"):
        vmap(histogram)(x)
    functorch._set_vmap_fallback_enabled(False)
    try:
        with pytest.raises(RuntimeError, match="aten::histc hit the vmap fallback which is currently disabled"):
            vmap(histogram)(x)
    finally:
        functorch._set_vmap_fallback_enabled(True)
    functorch._set_vmap_fallback_warning_enabled(False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            vmap(histogram)(x)
    finally:
        functorch._set_vmap_fallback_warning_enabled(True)


def test_questions_about_the_tensors_of_a_transform() -> None:
    functorch, seen = torch._C._functorch, []

    def look(row: torch.Tensor) -> torch.Tensor:
        seen.append(
            (
                functorch.is_batchedtensor(row),
                functorch.maybe_get_bdim(row),
                functorch.maybe_get_level(row),
                functorch.get_unwrapped(row).shape,
                functorch.maybe_current_level(),
            )
        )
        return row

    vmap(look)(torch.zeros(2, 3))
    assert seen == [(True, 0, 1, (2, 3), 1)]
    assert not functorch.is_batchedtensor(torch.zeros(1)) and functorch.maybe_get_level(torch.zeros(1)) == -1


@pytest.mark.parametrize("transform", [
    lambda f, x: grad(f, has_aux=True)(x), lambda f, x: vjp(f, x, has_aux=True), lambda f, x: jacrev(f, has_aux=True)(x),
    lambda f, x: jvp(f, (x,), (x,), has_aux=True), lambda f, x: jacfwd(f, has_aux=True)(x)])  # fmt: skip
def test_aux_holds_tensors_only(transform: Any) -> None:
    x = torch.rand(3)
    with pytest.raises(RuntimeError, match="Expected tensors, got unsupported type <class 'str'>"):
        transform(lambda x: (x.sum(), [x, "a"]), x)
    made = transform(lambda x: (x.sum(), {"a": x * 2}), x)
    assert torch.equal(made[-1]["a"], x * 2)


def test_outputs_that_transforms_refuse() -> None:
    x = torch.rand(3)
    for transform in (jacrev, jacfwd):
        with pytest.raises(RuntimeError, match=f"{transform.__name__}: Expected all outputs to be real"):
            transform(lambda x: x * 1j)(x)
    for call in (lambda: vjp(lambda x: None, x), lambda: jvp(lambda x: None, (x,), (x,))):
        with pytest.raises(RuntimeError, match=r"non-empty output \(got output = \[None\]\)"):
            call()


def test_hooks_of_saved_tensors_and_transforms() -> None:
    x = torch.rand(3)
    hooks = torch.autograd.graph.saved_tensors_hooks

    def hooked(x: torch.Tensor) -> torch.Tensor:
        with hooks(lambda t: t, lambda t: t):
            return (x * x).sum()

    with pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
        grad(hooked)(x)
    with hooks(lambda t: t, lambda t: t), pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
        grad(torch.sin)(x[0])
    with torch.autograd.graph.disable_saved_tensors_hooks("none here"):
        y = (x.requires_grad_() * x).sum()  # saving is what it was
        with pytest.raises(RuntimeError, match="none here"):
            hooked(x)
    y.backward()
    assert torch.equal(x.grad, 2 * x.detach())


def test_a_pullback_is_recorded_by_the_mode_of_its_own_call() -> None:
    x = torch.tensor(3.0, requires_grad=True)
    with torch.no_grad():
        out, pull = vjp(lambda x: x**2, x)
    (y,) = pull(torch.tensor(1.0))
    assert not out.requires_grad and torch.autograd.grad(y, x)[0].item() == 2
    out, pull = vjp(lambda x: x**2, x)
    with torch.no_grad():
        assert not pull(torch.tensor(1.0))[0].requires_grad
    assert out.requires_grad


class AddOne(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g

    @staticmethod
    def jvp(ctx: Any, t: torch.Tensor) -> torch.Tensor:
        return t.mul_(2)


class Product(Function):
    seen: list[Any] = []

    @staticmethod
    def forward(x: torch.Tensor, y: torch.Tensor, scale: int = 3) -> torch.Tensor:
        assert not forward_ad._is_fwd_grad_enabled()
        return x * y * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.scale = inputs[2]  # a default is among the inputs
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> torch.Tensor:
        Product.seen.append(tangents)
        x, y = ctx.saved_tensors
        return (tangents[0] * y + tangents[1] * x) * ctx.scale


def test_functions_in_forward_mode() -> None:
    with forward_ad.dual_level():
        x = torch.ones(2)
        dual = forward_ad.make_dual(x, torch.ones(2))
        assert AddOne.apply(dual) is dual and x.tolist() == [2.0, 2.0]
        assert forward_ad.unpack_dual(dual).tangent.tolist() == [2.0, 2.0]
        made = forward_ad.unpack_dual(Product.apply(dual, torch.full((2,), 5.0)))
    assert made.tangent.tolist() == [30.0, 30.0]
    assert Product.seen[0][1].tolist() == [0.0, 0.0] and Product.seen[0][2] is None


def test_a_jvp_that_doesnt_fit() -> None:
    class Elsewhere(AddOne):
        @staticmethod
        def jvp(ctx: Any, t: torch.Tensor) -> torch.Tensor:
            return t * 2

    class Twice(AddOne):
        @staticmethod
        def jvp(ctx: Any, t: torch.Tensor) -> Any:
            return t, t

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(RuntimeError, match="must modify the corresponding gradient inplace"):
            Elsewhere.apply(dual)
        with pytest.raises(RuntimeError, match="expected 1 but got 2"):
            Twice.apply(dual)


def test_forward_mode_switched_off() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        with forward_ad._set_fwd_grad_enabled(False):
            assert forward_ad.unpack_dual(dual).tangent is None
            still = dual * 2
            assert jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))[1].item() == 1
        assert forward_ad.unpack_dual(still).tangent is None
        assert forward_ad.unpack_dual(dual * 2).tangent.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_a_function_writes_to_its_other_arguments(jacobian: Any) -> None:
    x, y = torch.arange(2.0), torch.ones(2)
    assert torch.equal(jacobian(lambda x, y: y.copy_(x))(x, y), torch.eye(2))
    with pytest.raises(RuntimeError, match="mutate a captured Tensor"):
        jacobian(lambda x: y.copy_(x))(x)


def test_rows_one_by_one_need_no_vmap() -> None:
    class Hidden(Function):
        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x.sin()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            g.nonzero()  # which vmap can't take
            return g * ctx.saved_tensors[0].cos()

    x = torch.rand(3)
    assert torch.allclose(jacrev(Hidden.apply, chunk_size=1)(x), torch.diag(x.cos()))


def test_diagonals_of_all_examples_at_once() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in ((2, 3, 3), (2, 4, 2), (2, 3, 3, 3)):
            expected = torch.zeros(shape)
            for example in expected:
                example.fill_diagonal_(7.0)
            assert torch.equal(vmap(lambda a: a.fill_diagonal_(7.0))(torch.zeros(shape)), expected)
            turned = torch.zeros(shape).transpose(1, 2)
            assert torch.equal(vmap(lambda a: a.fill_diagonal_(7.0))(turned), expected.transpose(1, 2))


def test_dimensions_of_a_vmap_method_that_dont_fit() -> None:
    class Zeros(Function):
        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            """Nothing is kept."""

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
            return torch.zeros(x.shape[1:]), (None,)

    with pytest.raises(RuntimeError, match=r"returned an incompatible \(output, out_dims\) tuple"):
        vmap(Zeros.apply)(torch.randn(2, 3))


def test_tensors_inside_transforms_print_with_their_levels() -> None:
    shown: list[str] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        shown.append(repr(x))
        return (x * x).sum()

    x = torch.arange(2.0)
    grad(look)(x)
    grad(look)(x.clone().requires_grad_())
    vmap(grad(look))(torch.ones(1, 2))
    grad(lambda y: vmap(look)(y).sum())(torch.ones(1, 2))
    torch.func.jvp(look, (x,), (x,))
    grad(lambda y: (shown.append(repr(x)), y.sum())[1])(x)
    assert shown == [
        "GradTrackingTensor(lvl=1, value=\n    tensor([0., 1.])\n)",
        "GradTrackingTensor(lvl=1, value=\n    tensor([0., 1.], requires_grad=True)\n)",
        "GradTrackingTensor(lvl=2, value=\n    BatchedTensor(lvl=1, bdim=0, value=\n        tensor([[1., 1.]])\n    )\n)",
        "BatchedTensor(lvl=2, bdim=0, value=\n    GradTrackingTensor(lvl=1, value=\n        tensor([[1., 1.]])\n    )\n)",
        "GradTrackingTensor(lvl=1, value=\n    tensor([0., 1.])\n)",
        "tensor([0., 1.])",
    ]


def test_steps_of_functions_are_named_by_what_transforms_made_of_them() -> None:
    class Same(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            """Nothing is kept."""

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g

    names = []

    def noted(x: torch.Tensor) -> torch.Tensor:
        y = Same.apply(x)
        names.append(y.grad_fn.name())
        return y.sum()

    x = torch.ones(2, 2)
    names.append(vmap(Same.apply)(x.clone().requires_grad_()).grad_fn.name())
    grad(noted)(x)
    vmap(grad(noted))(x)
    assert names == ["VmappedSameBackward", "SameGeneratedBackward", "SameGeneratedBackward"]


@pytest.mark.parametrize("save", ["save_for_backward", "save_for_forward"])
@pytest.mark.parametrize("kept", ["input", "output", "marked"])
def test_an_input_that_is_returned_as_it_is_is_not_saved(save: str, kept: str) -> None:
    class Same(Function):
        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            if kept == "marked":
                ctx.mark_dirty(inputs[0])
            getattr(ctx, save)(output if kept == "output" else inputs[0])

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g

    for call in (lambda: Same.apply(torch.ones(2)), lambda: grad(lambda x: Same.apply(x.clone()).sum())(torch.ones(2))):
        if kept == "marked":
            call()
        else:
            with pytest.raises(RuntimeError, match="An input that has been returned as-is as output is being saved"):
                call()


class Logged(torch.Tensor):
    """A wrapper that answers by what it holds."""

    @staticmethod
    def __new__(cls, held: torch.Tensor, requires_grad: bool = False) -> Any:
        made = torch.Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), dtype=held.dtype, requires_grad=requires_grad
        )
        made.held = held.detach() if requires_grad else held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def held(x: Any) -> Any:
            return x.held if isinstance(x, cls) else x

        made = func(*pytree.tree_map(held, args), **pytree.tree_map(held, kwargs or {}))
        return pytree.tree_map(lambda x: cls(x) if isinstance(x, torch.Tensor) else x, made)


def test_gradients_of_wrappers_for_all_rows_at_once() -> None:
    x, weights = torch.arange(3.0), torch.eye(3)
    plain = x.clone().requires_grad_()
    expected = torch.autograd.grad(plain * plain.sum(), plain, weights, is_grads_batched=True)[0]
    for given in (weights, Logged(weights)):
        leaf = Logged(x, requires_grad=True)
        made = torch.autograd.grad(leaf * leaf.sum(), leaf, given, is_grads_batched=True)[0]
        assert isinstance(made, Logged) and type(made.held) is torch.Tensor and torch.equal(made.held, expected)

    def cube(x: torch.Tensor) -> torch.Tensor:
        return (x**3).sum()

    for vectorize in (False, True):
        made = torch.autograd.functional.hessian(cube, Logged(x), vectorize=vectorize)
        assert isinstance(made, Logged) and torch.equal(made.held, torch.diag(6 * x))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mm", r"expected matrix \(got `self` of size \[3\]\) and matrix \(got `other` of size \[3\]\)"),
        ("mv", r"expected matrix \(got `self` of size \[3\]\) and vector \(got `other` of size \[3\]\)"),
        ("bmm", r"expected 3D `self` \(got `self` of size \[3\]\) and 3D `other` \(got `other` of size \[3\]\)"),
    ],
)
def test_the_older_vmap_tells_shapes_that_dont_fit(name: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=rf"^{name}\(self, other\): Shape mismatch: {words}"):
        _vmap(getattr(torch, name))(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(RuntimeError, match=r"^dot\(self, other\): Shape mismatch: vector \(got `self` of size \[3, 3\]\)"):
        _vmap(torch.dot)(torch.ones(2, 3, 3), torch.ones(2, 3))


def test_contexts_that_show_other_saved_tensors() -> None:
    shown = torch._functorch.autograd_function.CtxWithSavedTensors

    class Outer:
        saved_tensors, kept = (1,), 2

    inner = shown(Outer(), (3, 4))
    assert inner.saved_tensors == (3, 4) and inner.kept == 2 and shown(inner, ()).saved_tensors == ()
    Outer._pt_inner_ctx = 1
    with pytest.raises(RuntimeError, match="name collision"):
        shown(Outer(), ())

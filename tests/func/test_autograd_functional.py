"""autograd.functional: what strict mode refuses, the structures of results, wrong arguments; forward_ad's levels."""

import pytest

import flambeau as torch
from flambeau.autograd import forward_ad
from flambeau.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp

A, B = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0])
NOT_IN_GRAPH = r"^Output 0 of the user-provided function does not require gradients\. The outputs must be computed in a "


@pytest.mark.parametrize("function", [vjp, jvp, hvp, vhp, jacobian, hessian])
def test_strict_refuses_constants(function):
    with pytest.raises(RuntimeError, match=NOT_IN_GRAPH):
        function(lambda x: torch.ones(()), A, strict=True, **({"v": A} if function in (jvp, hvp, vhp) else {}))


def test_strict_refuses_what_is_independent():
    with pytest.raises(RuntimeError, match=r"^Output 1 of the user-provided function is independent of input 0"):
        jacobian(lambda x, y: (x.sum() * y, y * 2), (A, B), strict=True)
    with pytest.raises(RuntimeError, match=r"^The output of the user-provided function is independent of input 0"):
        vjp(lambda x, y: y * 2, (A, B), B, strict=True)
    for function in (hvp, vhp):
        with pytest.raises(RuntimeError, match=r"^While computing the hessian, found that the jacobian of the user-provided"):
            function(lambda x: x.sum(), A, A, strict=True)
    with pytest.raises(RuntimeError, match=r"^While computing the hessian"):
        hessian(lambda x: x.sum(), A, strict=True)
    linear = "^The jacobian of the user-provided function is independent of input 0."
    for function, v in ((vjp, {"v": A}), (jvp, {"v": A}), (jacobian, {})):
        function(lambda x: x * 2, A, strict=True, **v)
        with pytest.raises(RuntimeError, match=linear):
            function(lambda x: x * 2, A, strict=True, create_graph=True, **v)


def test_directions_that_do_not_fit():
    for function in (vjp, jvp, hvp, vhp):
        with pytest.raises(RuntimeError, match=r"The given v should contain a single Tensor."):
            function(lambda x: (x**3).sum(), A, (A, A))
    with pytest.raises(RuntimeError, match=r"v is a tuple of invalid length: should be 2 but got 1."):
        jvp(lambda x, y: x * y.sum(), (A, B), (A,))


def test_structures():
    def two(x, y):
        return x.sum() * y, y.sin()

    rows = jacobian(two, (A, B), vectorize=True, strategy="forward-mode")
    assert type(rows) is list and type(rows[0]) is list  # as in PyTorch; tuples in reverse mode
    for row, expected in zip(rows, jacobian(two, (A, B)), strict=True):
        for x, y in zip(row, expected, strict=True):
            torch.testing.assert_close(x, y)
    assert type(jacobian(lambda x: (x, x), A, vectorize=True, strategy="forward-mode")) is tuple
    value, product = hvp(lambda x: (x**3).sum().reshape(1), A, torch.ones(3))
    assert value.shape == (1,) and product.tolist() == [6.0, 12.0, 18.0]
    assert hessian(lambda x: (x**3).sum().reshape(1), A).diagonal().tolist() == [6.0, 12.0, 18.0]
    with pytest.raises(ValueError, match=r"Expected primal to be floating point or complex, but got: torch.int64"):
        jacobian(lambda x: x * 2, torch.arange(3), vectorize=True, strategy="forward-mode")


def test_levels_of_forward_ad():
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match=r"Invalid level given to _make_dual"):
            forward_ad.make_dual(A, A, level=1)
        with pytest.raises(TypeError, match=r"argument 'dual' .position 1. must be Tensor, not int"):
            forward_ad.unpack_dual(3)
        dual = forward_ad.make_dual(A, torch.ones(3))
        assert forward_ad.unpack_dual(dual.detach()).tangent is None
        with pytest.raises(NotImplementedError, match=r"Trying to use forward AD with mul_out that does not support it"):
            torch.mul(dual, dual, out=torch.empty(3))
        module = torch.nn.Linear(3, 2)
        parameters = {name: forward_ad.make_dual(p, torch.ones_like(p)) for name, p in module.named_parameters()}
        moved = forward_ad.unpack_dual(torch.func.functional_call(module, parameters, (A,))).tangent
        assert moved.tolist() == [7.0, 7.0]  # of one vector, with parameters that want gradients as well


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return g * 3 * ctx.saved_tensors[0] ** 2


def test_functions_of_users():
    x = torch.arange(8.0).reshape(2, 2, 2)
    assert torch.vmap(torch.vmap(Cube.apply))(x).tolist() == (x**3).tolist()

    class Joined(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    for transform in (torch.func.grad, torch.func.jacfwd, torch.func.jacrev, torch.vmap):
        with pytest.raises(RuntimeError, match=r"it must override the setup_context staticmethod"):
            transform(lambda x: Joined.apply(x).sum())(A)
    assert Joined.apply(A).tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: torch.func.vjp(lambda x: (x, x > 1), A), "All outputs of f must be floating-point or complex Tensors"),
        (lambda: torch.func.jvp(lambda x: torch.ones(3), (A,), (A,), strict=True), "The output of f is independent of"),
        (lambda: torch.func.jvp(torch.sin, (A,), (None,)), "Expected tangents to only contain Tensors, got <class 'NoneType'>"),
        (lambda: torch.func.jvp(lambda x: [], (A,), (A,)), "to be a function that has non-empty output"),
        (lambda: torch.func.jacrev(torch.sin)(torch.ones(1, dtype=torch.complex64)), "jacrev: Expected all inputs to be real"),
        (lambda: torch.func.jacfwd(torch.sin)(torch.ones(1, dtype=torch.complex64)), "jacfwd: Expected all inputs to be real"),
        (lambda: torch.func.linearize(torch.sin, A)[1](A.double()), "tangent:0 with dtype torch.float64 in flattened pytree"),
        (lambda: torch.func.grad(lambda x: (x * 2).retain_grad())(A), r"attempting to call Tensor.retain_grad\(\) inside"),
    ],
)
def test_errors_of_transforms(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_linearized_functions_are_out_of_the_graph():
    assert not torch.func.linearize(lambda x: x**3, A)[1](A).requires_grad


def test_writes_through_views_give_every_example_its_tangent():
    rows = torch.arange(1.0, 7.0).reshape(2, 3)

    def by_index(x):
        y = x * 1
        y[0] = x[1] * x[1]
        return (y * x).sum()

    def by_view(x):
        y = x * 2
        y[:2].mul_(x[1:])
        return (y**2).sum()

    for function in (by_index, by_view):
        torch.testing.assert_close(torch.vmap(torch.func.jacfwd(function))(rows), torch.vmap(torch.func.jacrev(function))(rows))
    hessians = torch.vmap(torch.func.hessian(by_view))(rows)
    torch.testing.assert_close(hessians, torch.vmap(torch.func.jacrev(torch.func.jacrev(by_view)))(rows))

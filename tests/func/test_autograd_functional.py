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


@pytest.mark.parametrize("square", [lambda x: (x**2).sum(), lambda x: x.square().sum(), lambda x: (x**2).mean() * 2])
def test_the_hessian_of_a_square_is_in_the_graph(square):
    x = torch.tensor([1.0, -2.0])
    made = hessian(square, x, create_graph=True, strict=True)
    assert made.tolist() == [[2, 0], [0, 2]] and made.requires_grad
    _, product = hvp(square, x, torch.ones(2), create_graph=True, strict=True)
    assert product.tolist() == [2, 2] and product.requires_grad


@pytest.mark.parametrize("function", [hvp, vhp])
def test_a_constant_hessian_is_refused_where_it_is_to_be_differentiated(function):
    with pytest.raises(RuntimeError, match="The hessian of the user-provided function is independent of input 0"):
        function(lambda x: (x * x).sum(), torch.ones(2), torch.ones(2), create_graph=True, strict=True)


def test_a_piecewise_linear_function_has_no_double_backward_trick():
    with pytest.raises(RuntimeError, match="independent of entry 0 in the grad_jacobian"):
        hvp(lambda x: x.relu().sum(), torch.ones(2), torch.ones(2), strict=True)
    assert vhp(lambda x: x.relu().sum(), torch.ones(2), torch.ones(2), strict=True)[1].tolist() == [0, 0]


def test_strict_jacobians_look_at_one_input_after_the_other():
    def two(x, y):
        return x * 2, y * 3

    with pytest.raises(RuntimeError, match="The jacobian of the user-provided function is independent of input 0"):
        jacobian(two, (torch.ones(2), torch.ones(2)), create_graph=True, strict=True)
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function is independent of input 1"):
        jacobian(two, (torch.ones(2), torch.ones(2)), strict=True)


def test_rows_of_all_outputs_at_once():
    (a, b), (c, d) = jacobian(
        lambda x, y: (x * 2, (x * y).sum()),
        (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])),
        create_graph=True,
        vectorize=True,
    )
    assert a.tolist() == [[2, 0], [0, 2]] and b.tolist() == [[0, 0], [0, 0]] and c.tolist() == [3, 4] and d.tolist() == [1, 2]
    assert a.requires_grad and b.requires_grad


def derivatives(function, at, count):
    """The values of a function of one number and of its derivatives."""
    x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    y, made = function(x), []
    for _ in range(count):
        made.append(y.item())
        if not y.requires_grad:
            break
        (y,) = torch.autograd.grad(y, x, create_graph=True)
    return made


@pytest.mark.parametrize("at", [0.0, -1.0, 2.0])
@pytest.mark.parametrize("power", [0, 1, 2, 3])
def test_derivatives_of_powers_end_in_zeros_outside_the_graph(power, at):
    factor, expected = 1, []
    for n in range(power + 2):
        expected.append(factor * at ** (power - n) if factor else 0)
        factor *= power - n
    assert derivatives(lambda x: x**power, at, 9) == expected


@pytest.mark.parametrize(
    "function", [lambda x: x ** torch.tensor(2.0), lambda x: torch.nn.functional.layer_norm(x.reshape(1, 1), (1,)).pow(2).sum()]
)
def test_high_derivatives_at_zero_are_finite(function):
    assert all(value == value for value in derivatives(function, 0.0, 5))


@pytest.mark.parametrize(
    "normalize",
    [
        lambda x: torch.nn.functional.layer_norm(x, (4,)),
        lambda x: torch.nn.functional.group_norm(x[:, :, None], 1)[:, :, 0],
        lambda x: torch.nn.functional.batch_norm(x.t(), None, None, training=True).t(),
        lambda x: (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt(),
    ],
)
def test_fourth_derivatives_of_norms(normalize):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64, generator=generator).requires_grad_()
    directions = torch.randn(5, 3, 4, dtype=torch.float64, generator=generator)
    centered = x - x.mean(1, keepdim=True)
    written = centered * (centered.square().mean(1, keepdim=True) + 1e-5) ** -0.5
    found, expected = [], []
    for y, made in ((normalize(x), found), (written, expected)):
        for direction in directions:
            y = (y * direction).sum()
            made.append(y.item())
            (y,) = torch.autograd.grad(y, x, create_graph=True)
    assert found == pytest.approx(expected, rel=1e-8)

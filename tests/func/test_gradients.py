"""grad, vjp, jvp, linearize, jacobians: numbers against closed forms and each other, nesting, structures, errors."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

torch.manual_seed(0)
X = torch.randn(3, dtype=torch.float64)
A = torch.randn(3, 3, dtype=torch.float64)
close = torch.testing.assert_close


def cubic(x):
    return (x**3).sum() + (x.sin() * (A @ x)).sum()


def gradient(x):
    return 3 * x**2 + x.cos() * (A @ x) + A.T @ x.sin()


def second(x):
    mixed = x.cos()[:, None] * A
    return torch.diag(6 * x - x.sin() * (A @ x)) + mixed + mixed.T


def test_first_derivatives():
    close(grad(cubic)(X), gradient(X))
    made, value = grad_and_value(cubic)(X)
    close(made, gradient(X))
    close(value, cubic(X))
    assert not made.requires_grad and not value.requires_grad
    close(jvp(cubic, (X,), (X,))[1], gradient(X) @ X)
    _, pull = vjp(cubic, X)
    close(pull(torch.tensor(2.0, dtype=torch.float64))[0], 2 * gradient(X))
    close(linearize(cubic, X)[1](X), gradient(X) @ X)
    close(jacrev(cubic)(X), gradient(X))
    close(jacfwd(cubic)(X), gradient(X))


@pytest.mark.parametrize("outer, inner", [(f, g) for f in (jacrev, jacfwd) for g in (jacrev, jacfwd, grad)])
def test_second_derivatives(outer, inner):
    close(outer(inner(cubic))(X), second(X))


def test_nesting_to_any_order():
    close(hessian(cubic)(X), second(X))
    close(vmap(hessian(cubic))(A)[1], second(A[1]))
    close(grad(lambda x: grad(cubic)(x).sum())(X), second(X).sum(0))
    close(jvp(lambda x: jvp(cubic, (x,), (X,))[1], (X,), (X,))[1], X @ second(X) @ X)
    assert grad(grad(grad(lambda x: x**4)))(torch.tensor(2.0)) == 48
    close(vmap(grad(cubic))(A), torch.stack([gradient(a) for a in A]))
    close(grad(lambda a: vmap(cubic)(a).sum())(A), vmap(grad(cubic))(A))
    close(vmap(vmap(grad(torch.sin)))(A), A.cos())
    close(vmap(lambda v: jvp(cubic, (X,), (v,))[1])(A), A @ gradient(X))


def test_perturbations_do_not_mix():
    one = torch.tensor(1.0)
    assert grad(lambda x: x * grad(lambda y: x + y)(one))(one) == 1
    assert jvp(lambda x: x * jvp(lambda y: x * y, (one,), (one,))[1], (one,), (one,))[1] == 2


def test_maml():
    def adapted(w):
        return w - 0.1 * grad(lambda v: ((2 * v) ** 2).sum())(w)

    close(grad(lambda w: (adapted(w) ** 2).sum())(torch.ones(3)), torch.full((3,), 2 * 0.2 * 0.2))


def test_the_surrounding_graph():
    w = A.clone().requires_grad_()
    made = grad(lambda x: (w @ x).sin().sum())(X)
    assert made.requires_grad
    made.sum().backward()
    assert w.grad is not None
    with torch.no_grad():
        inside = grad(lambda x: (w @ x).sin().sum())(X)
    close(inside, made.detach())
    assert not inside.requires_grad
    x = X.clone().requires_grad_()
    close(torch.autograd.grad(grad(cubic)(x).sum(), x)[0], second(X).sum(0))
    assert not grad(lambda x: (x * w.sum().detach()).sum())(X).requires_grad


def test_arguments_and_structures():
    both = grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(X, A[0])
    close(both[0], A[0])
    close(both[1], X)
    made = grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": X, "b": [A[0]]})
    close(made["b"][0], X)
    made, aux = grad(lambda x: (x.sum(), {"twice": 2 * x}), has_aux=True)(X)
    close(aux["twice"], 2 * X)
    assert not aux["twice"].requires_grad
    _, pull, aux = vjp(lambda x: ({"y": x.sin()}, x), X, has_aux=True)
    close(pull({"y": torch.ones_like(X)})[0], X.cos())
    blocks = jacrev(lambda a, b: {"p": a * b, "s": a.sum()}, argnums=(0, 1))(X, A[0])
    close(blocks["p"][1], torch.diag(X))
    close(blocks["s"][1], torch.zeros(3, dtype=torch.float64))
    forward = jacfwd(lambda a, b: {"p": a * b, "s": a.sum()}, argnums=(0, 1))(X, A[0])
    close(forward["p"], blocks["p"])
    close(forward["s"], blocks["s"])
    close(jacrev(torch.sin, chunk_size=2)(X), torch.diag(X.cos()))
    close(jacfwd(lambda x: (x.sin(), x), has_aux=True)(X)[1], X)
    close(jacrev(torch.sin)(X[0]), X[0].cos())
    close(hessian(torch.sin)(X[0]), -X[0].sin())
    assert jacrev(lambda x: x * 2)(torch.ones(0)).shape == (0, 0)


def written(x):
    b = torch.zeros(3, 3, dtype=torch.float64)
    b[0] = x * 2
    b[1:] = x.sin()
    b[:, 1].mul_(x)
    return b


FUNCTIONS = {
    "softmax": lambda x: x.softmax(0),
    "layer_norm": lambda x: F.layer_norm(x, (3,)),
    "index": lambda x: x[1:] * x[[0, 1]],
    "writes": written,
    "inverse": lambda x: torch.linalg.inv(A + torch.diag(x)),
    "svdvals": lambda x: torch.linalg.svdvals(A * x),
    "max_pool1d": lambda x: F.max_pool1d((x * A).unsqueeze(0), 2),
    "conv1d": lambda x: F.conv1d((x * A)[None], A[None]),
    "cat": lambda x: torch.cat([x, A[0] * x]),
    "cumprod": lambda x: x.cumprod(0),
    "where": lambda x: torch.where(x > 0, x, x * x),
    "cross_entropy": lambda x: F.cross_entropy(x * A, torch.tensor([0, 1, 2])),
    "norm": lambda x: x.norm(),
    "sort": lambda x: x.sort().values * A[0],
    "matmul": lambda x: (A * x) @ (A + x),
    "logsumexp": lambda x: (A * x).logsumexp(0),
    "expand": lambda x: x.expand(2, 3).clone(),
    "pad": lambda x: F.pad(x, (1, 2)),
    "gelu": F.gelu,
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_and_reverse_agree(name):
    function = FUNCTIONS[name]
    rows = jacrev(function)(X)
    close(jacfwd(function)(X), rows)
    step = 1e-6 * torch.eye(3, dtype=torch.float64)
    close(torch.stack([(function(X + d) - function(X - d)) / 2e-6 for d in step], -1), rows, atol=1e-6, rtol=1e-5)


ERRORS = [
    (lambda: grad(torch.sin)(X), RuntimeError, "Expected f.* to return a scalar Tensor, got tensor with 1 dims"),
    (lambda: grad(lambda x: 2.0)(X), RuntimeError, "Expected f.* to return a Tensor, got <class 'float'>"),
    (lambda: grad(lambda x: x.sum(), has_aux=True)(X), RuntimeError, r"should be a tuple: \(output, aux\) if has_aux is True"),
    (lambda: grad(torch.sum)(torch.arange(3)), RuntimeError, "only Tensors of floating point dtype can require gradients"),
    (lambda: grad(lambda x: x)(3.0), ValueError, "Thing passed to transform API must be Tensor"),
    (lambda: grad(torch.sum, argnums=1)(X), RuntimeError, "Got argnum=1, but only 1 positional inputs"),
    (lambda: grad(torch.sum, argnums=(0, 0))(X), RuntimeError, "argnums elements must be unique"),
    (lambda: vjp(lambda x: 3, X), RuntimeError, "expected f.* to return only tensors, got unsupported type <class 'int'>"),
    (lambda: vjp(lambda x: (x, x), X)[1](X), RuntimeError, r"cotangents: \*, primal output: \(\*, \*\)"),
    (lambda: jvp(torch.sin, X, X), RuntimeError, "Expected primals to be a tuple"),
    (lambda: jvp(torch.sin, (X,), (X, X)), RuntimeError, "Expected primals and tangents to have the same python structure"),
    (lambda: jvp(torch.sin, (X,), (X[0],)), RuntimeError, "Trying to set a forward gradient that has a different size"),
    (lambda: jacfwd(torch.sin)(torch.arange(3)), ValueError, "Expected primal to be floating point or complex"),
    (lambda: jacrev(torch.sin, chunk_size=0), ValueError, "`chunk_size` should be greater than 0"),
    (lambda: torch.func.functionalize(torch.sin, remove="x"), RuntimeError, "received invalid argument for remove=x"),
]


@pytest.mark.parametrize("call, kind, words", ERRORS)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()

"""Gradients through sparse tensors: to the dense operand, to the values, to a sparse leaf, and of second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

INDICES = torch.tensor([[0, 1, 1, 0, 3], [2, 0, 2, 2, 1]])


def matrix(values: Any, layout: str = "coo") -> Any:
    x = torch.sparse_coo_tensor(INDICES, values, (4, 3))
    return x if layout == "coo" else x.to_sparse(layout=getattr(torch, f"sparse_{layout}"))


def dense(*shape: int) -> Any:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


OF_VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "to_dense": lambda x, m: x.to_dense(),
    "coalesce": lambda x, m: x.coalesce().values(),
    "mm": lambda x, m: torch.mm(x, m),
    "sparse.mm": lambda x, m: torch.sparse.mm(x, m),
    "mv": lambda x, m: x.mv(m[:, 0]),
    "dense @ sparse": lambda x, m: m.t() @ x.t(),
    "addmm": lambda x, m: torch.sparse.addmm(torch.ones(4, 2).double(), x, m, beta=0.5, alpha=2),
    "sparse @ sparse": lambda x, m: torch.sparse.mm(x, x.t()).to_dense(),
    "product with dense": lambda x, m: (x * (m @ m.t()).sum(0)).to_dense(),
    "product with sparse": lambda x, m: (x * x).to_dense(),
    "sum of both": lambda x, m: (x + 3 * x.coalesce()).to_dense(),
    "dense + sparse": lambda x, m: torch.ones(4, 3).double() + x,
    "function": lambda x, m: x.sin().to_dense(),
    "sum": lambda x, m: torch.sparse.sum(x, 0).to_dense() ** 2,
    "softmax": lambda x, m: torch.sparse.softmax(x, 1).to_dense(),
    "log_softmax": lambda x, m: torch.sparse.log_softmax(x, 0).coalesce().values(),
    "select": lambda x, m: x[0].to_dense(),
    "index_select": lambda x, m: x.index_select(0, torch.tensor([1, 0, 1])).to_dense(),
    "cat": lambda x, m: torch.cat([x, 2 * x], 1).to_dense(),
    "unsqueeze": lambda x, m: x.unsqueeze(1).to_dense(),
}


@pytest.mark.parametrize("name", OF_VALUES)
def test_of_values_and_of_the_dense_operand(name: str) -> None:
    def function(values: Any, m: Any) -> Any:
        return OF_VALUES[name](matrix(values), m)

    assert gradcheck(function, (dense(5), dense(3, 2)))
    assert gradgradcheck(function, (dense(5), dense(3, 2)))


OF_COMPRESSED: dict[str, Callable[[Any, Any], Any]] = {
    "mm": lambda x, m: torch.mm(x, m),
    "to_dense": lambda x, m: x.to_dense(),
    "values": lambda x, m: x.values() ** 2,
    "sum along rows": lambda x, m: (x * 2 + x).sum(1, keepdim=True).to_dense() if x.is_sparse_csr else x.to_dense(),
    "transposed": lambda x, m: m.t() @ x.t(),
}


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize("name", OF_COMPRESSED)
def test_of_compressed_matrices(layout: str, name: str) -> None:
    def function(values: Any, m: Any) -> Any:
        return OF_COMPRESSED[name](matrix(values, layout), m)

    assert gradcheck(function, (dense(5), dense(3, 2)))
    assert gradgradcheck(function, (dense(5), dense(3, 2)))


def test_of_blocks_and_sampled_products() -> None:
    full = torch.eye(4).double() + torch.ones(4, 4).double().tril(-2)
    places = torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1])
    assert gradcheck(lambda v, m: torch.sparse_bsr_tensor(*places, v, (4, 4)) @ m, (dense(3, 2, 2), dense(4, 2)))
    pattern = full.to_sparse_csr()
    assert gradcheck(lambda a, b: torch.sparse.sampled_addmm(pattern, a, b, alpha=2).values(), (dense(4, 3), dense(3, 4)))
    for reduce in ("mean", "amax"):
        assert gradcheck(lambda m, r=reduce: torch.sparse.mm(pattern, m, r), (dense(4, 2),))


def test_of_a_batch() -> None:
    batch = torch.randn(2, 3, 4).double()
    batch[0, 1] = 0
    places = batch.to_sparse().indices()
    assert gradcheck(lambda v, m: torch.bmm(torch.sparse_coo_tensor(places, v, (2, 3, 4)), m), (dense(20), dense(2, 4, 2)))


def test_values_get_a_gradient_with_their_repetitions() -> None:
    values = torch.tensor([3.0, 4, 5, 6, 7], requires_grad=True)
    x = matrix(values)
    assert not x.is_leaf and type(x.grad_fn).__name__ == "SparseCooTensorWithDimsAndTensorsBackward0"
    x.to_dense().pow(2).sum().backward()
    assert values.grad.tolist() == [18, 8, 10, 18, 14]


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_a_sparse_leaf_gets_a_sparse_gradient(layout: str) -> None:
    x = matrix(torch.tensor([3.0, 4, 5, 6, 7])).coalesce()
    x = (x if layout == "coo" else x.to_sparse_csr()).requires_grad_()
    m = torch.arange(6.0).reshape(3, 2).requires_grad_()
    made = torch.sparse.mm(x, m)
    assert x.is_leaf and x.requires_grad and type(made.grad_fn).__name__ == "SparseAddmmBackward0"
    made.sum().backward()
    assert x.grad.layout is x.layout and x.grad.values().tolist() == [9, 1, 9, 5]
    assert m.grad.tolist() == [[4, 4], [7, 7], [14, 14]]
    (x * 2).backward(x.detach())
    assert x.grad.values().tolist() == [27, 9, 19, 19]
    (by_call,) = torch.autograd.grad((x * x).sum() if layout == "coo" else (x * x).values().sum(), x)
    assert by_call.layout is x.layout and by_call.values().tolist() == [18, 8, 10, 14]
    x.grad = None
    assert x.grad is None and x.detach().requires_grad is False


def test_hooks_see_sparse_gradients() -> None:
    x = torch.eye(2).to_sparse().requires_grad_()
    seen = []

    def hook(gradient: Any) -> Any:
        seen.append(gradient.layout)
        return gradient * 10

    x.register_hook(hook)
    torch.sparse.mm(x, torch.ones(2, 2)).sum().backward()
    assert seen == [torch.sparse_coo] and x.grad.values().tolist() == [20, 20]


def test_a_leaf_is_not_written_to() -> None:
    x = torch.eye(2).to_sparse().requires_grad_()
    for write in (lambda: x.mul_(2), lambda: x.add_(torch.eye(2).to_sparse()), lambda: x.zero_()):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
            write()
    with torch.no_grad():
        x.add_(torch.eye(2).to_sparse(), alpha=2)
    assert x.to_dense().tolist() == [[3, 0], [0, 3]] and x.requires_grad


def test_a_function_of_the_users_may_save_sparse_tensors() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, indices: Any, values: Any, shape: Any, other: Any) -> Any:
            a = torch.sparse_coo_tensor(indices, values, shape)
            ctx.save_for_backward(a, other)
            return torch.matmul(a, other)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            a, other = ctx.saved_tensors
            rows, columns = a._indices()
            return None, gradient.matmul(other.t())[rows, columns], None, a.t().matmul(gradient)

    assert gradcheck(lambda v, m: Product.apply(INDICES, v, (4, 3), m), (dense(5), dense(3, 2)))


def test_values_at_one_place_have_one_gradient() -> None:
    """The gradient of a tensor with repeated places has each place once, so that its elements are those of the dense one."""

    def repeated() -> Any:
        return torch.sparse_coo_tensor([[0, 0, 1, 0], [0, 0, 1, 1]], [1.0, 2.0, 3.0, 4.0], (2, 2)).requires_grad_()

    other, weight = torch.tensor([[5.0, 7.0], [1.0, 0.0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    x = repeated()
    torch.sparse.mm(x, other).backward(weight)
    assert x.grad._indices().tolist() == [[0, 0, 1], [0, 1, 1]] and x.grad._values().tolist() == [19, 1, 3]
    x = repeated()
    (gradient,) = torch.autograd.grad(x.to_dense(), x, weight)
    assert gradient.to_dense().tolist() == [[1, 2], [0, 4]]
    x, seen = repeated(), []
    x.register_hook(seen.append)
    x.to_dense().backward(weight)
    assert seen[0].to_dense().tolist() == [[1, 2], [0, 4]]
    doubles = torch.sparse_coo_tensor([[0, 0, 1], [0, 0, 1]], torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), (2, 2))
    assert torch.autograd.gradcheck(lambda x: torch.sparse.mm(x, other.double()), doubles.requires_grad_(), masked=True)


def test_sparse_gradients_of_a_leaf() -> None:
    """Later ones come first in a sum, as in PyTorch; two leaves don't share one whose values aren't contiguous."""

    class Given(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, gradient: Any) -> Any:
            ctx.gradient = gradient
            return x + 0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return ctx.gradient, None

    one, two = (torch.sparse_coo_tensor([[place]], [1.0], (3,)) for place in (0, 2))
    x = torch.zeros(3, requires_grad=True)
    (Given.apply(x, one) + Given.apply(x, two)).sum().backward()
    assert x.grad._indices().tolist() == [[0, 2]]

    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            places = torch.ones(1, 1, dtype=torch.int64).expand(1, 4)
            made = torch.sparse_coo_tensor(places, torch.ones(1, 3).expand(4, 3), (5, 3))
            return made, made

    a, b = (torch.zeros(5, 3, requires_grad=True) for _ in range(2))
    Both.apply(a, b).sum().backward()
    assert a.grad._values().data_ptr() != b.grad._values().data_ptr()


def test_repeated_places_round_as_a_dense_gradient_does() -> None:
    ones = torch.full((1000, 2), 0.9, dtype=torch.bfloat16)
    x = torch.sparse_coo_tensor(torch.zeros(1, 1000, dtype=torch.int64), ones, (1, 2))
    assert x.to_dense().tolist() == x.coalesce().values().tolist() == [[256.0, 256.0]]

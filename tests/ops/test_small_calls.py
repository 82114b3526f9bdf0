"""Small calls find the plan of an earlier one: the second answers are the first ones, errors and gradients too."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.runtime import launch

I = torch.tensor([[0, 1, 0, 2], [1, 1, 0, 0]])
ROW = torch.tensor([2, 0])


def _numbers(*shape, start=0):
    return torch.arange(start, start + int(np.prod(shape)), dtype=torch.float32).reshape(shape)


CALLS = {
    "gather": lambda x: x.gather(0, I),
    "scatter": lambda x: x.scatter(0, I, _numbers(2, 4)),
    "scatter of a number": lambda x: x.scatter(0, I, 2.0),
    "scatter_": lambda x: x.clone().scatter_(0, I, _numbers(2, 4)),
    "scatter_ of a number": lambda x: x.clone().scatter_(0, I, 2.0),
    "scatter_add": lambda x: x.scatter_add(0, I, _numbers(2, 4)),
    "scatter_add_": lambda x: x.clone().scatter_add_(0, I, _numbers(2, 4)),
    "scatter_reduce": lambda x: x.scatter_reduce(0, I, _numbers(2, 4), "amax"),
    "index_select": lambda x: x.index_select(0, ROW),
    "index_add": lambda x: x.index_add(0, ROW, _numbers(2, 4)),
    "index_copy": lambda x: x.index_copy(0, ROW, _numbers(2, 4)),
    "index_fill": lambda x: x.index_fill(0, ROW, 3),
    "index": lambda x: x[ROW],
    "mask": lambda x: x[x > 3],
    "mask of rows": lambda x: x[torch.tensor([True, False, True])],
    "hstack": lambda x: torch.hstack([x, x]),
    "vstack": lambda x: torch.vstack([x[0], x]),
    "dstack": lambda x: torch.dstack([x, x]),
    "column_stack": lambda x: torch.column_stack([x[:, 0], x]),
    "matmul": lambda x: x.reshape(3, 2, 2) @ x.reshape(3, 2, 2).transpose(1, 2),
    "matmul by one matrix": lambda x: x.reshape(3, 2, 2) @ x[:2, :2],
    "einsum": lambda x: torch.einsum("ij,kj->ki", x, x),
    "outer": lambda x: torch.outer(x[0], x[1]),
    "diag": lambda x: torch.diag(x[0]),
    "diag_embed": lambda x: torch.diag_embed(x, 1),
    "all": lambda x: x.all(0),
    "chunk": lambda x: x.chunk(2, 1)[1],
    "unbind": lambda x: x.unbind(1)[3],
    "channels_last": lambda x: x.reshape(1, 3, 2, 2).to(memory_format=torch.channels_last),
    "cross": lambda x: torch.cross(x[:, :3], x[:, 1:], 1),
    "cross of a column": lambda x: torch.linalg.cross(x[:, :1], x[:, 1:], dim=0),
    "searchsorted": lambda x: torch.searchsorted(x, x + 0.5),
    "bucketize": lambda x: torch.bucketize(x, x[1], right=True),
    "repeat_interleave": lambda x: x.t().repeat_interleave(2, -1),
    "aminmax": lambda x: torch.stack(tuple(torch.aminmax(x, dim=0))),
    "index_put": lambda x: x.index_put((ROW,), _numbers(4)),
    "index_put that adds": lambda x: x.index_put((torch.tensor([1, -2]),), _numbers(2, 1), accumulate=True),
    "tensor_split": lambda x: torch.tensor_split(x, 3, 1)[1],
    "new_zeros": lambda x: x.new_zeros(2, 3),
    "as_strided": lambda x: x.as_strided((2, 2), (5, 1)),
    "linspace": lambda x: torch.linspace(0, 1, 7),
    "full": lambda x: torch.full((2, 3), 4.0),
    "tensor": lambda x: torch.tensor(True),
}
_EXPECTED = {
    "gather": [[0, 5, 2, 11], [4, 5, 2, 3]],
    "scatter": [[0, 1, 6, 7], [4, 5, 6, 7], [8, 9, 10, 3]],
    "scatter_add": [[0, 1, 10, 10], [8, 11, 6, 7], [8, 9, 10, 14]],
    "scatter_reduce": [[0, 1, 6, 7], [4, 5, 6, 7], [8, 9, 10, 11]],
    "index_add": [[4, 6, 8, 10], [4, 5, 6, 7], [8, 10, 12, 14]],
    "index_copy": [[4, 5, 6, 7], [4, 5, 6, 7], [0, 1, 2, 3]],
    "index_fill": [[3, 3, 3, 3], [4, 5, 6, 7], [3, 3, 3, 3]],
    "index": [[8, 9, 10, 11], [0, 1, 2, 3]],
    "mask of rows": [[0, 1, 2, 3], [8, 9, 10, 11]],
    "cross": [[-1, 2, -1], [-1, 2, -1], [-1, 2, -1]],
    "cross of a column": [[-4, -8, -12], [8, 16, 24], [-4, -8, -12]],
    "searchsorted": [[1, 2, 3, 4]] * 3,
    "bucketize": [[0, 0, 0, 0], [1, 2, 3, 4], [4, 4, 4, 4]],
    "repeat_interleave": [[0, 0, 4, 4, 8, 8], [1, 1, 5, 5, 9, 9], [2, 2, 6, 6, 10, 10], [3, 3, 7, 7, 11, 11]],
    "aminmax": [[0, 1, 2, 3], [8, 9, 10, 11]],
    "index_put": [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3]],
    "index_put that adds": [[0, 1, 2, 3], [5, 6, 7, 8], [8, 9, 10, 11]],
    "tensor_split": [[2], [6], [10]],
    "as_strided": [[0, 1], [5, 6]],
    "einsum": [[14, 38, 62], [38, 126, 214], [62, 214, 366]],
    "outer": [[0, 0, 0, 0], [4, 5, 6, 7], [8, 10, 12, 14], [12, 15, 18, 21]],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_second_call_plans_nothing(name, monkeypatch):
    x = _numbers(3, 4)
    first = CALLS[name](x)
    monkeypatch.setattr(launch, "callable_of", lambda *_, **__: pytest.fail("planned again"))
    second = CALLS[name](x)
    assert second.stride() == first.stride() and second.dtype is first.dtype and second.tolist() == first.tolist()
    if name in _EXPECTED:
        assert second.tolist() == _EXPECTED[name]


SCATTERING = {
    "gather": lambda x, i: x.gather(0, i),
    "scatter": lambda x, i: x.scatter(0, i, torch.ones(2, 4)),
    "scatter_": lambda x, i: x.scatter_(0, i, torch.ones(2, 4)),
    "scatter of a number": lambda x, i: x.scatter(0, i, 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i, torch.ones(2, 4)),
    "scatter_add_": lambda x, i: x.scatter_add_(0, i, torch.ones(2, 4)),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i, torch.ones(2, 4), "prod"),
}


@pytest.mark.parametrize("name", SCATTERING)
def test_a_kept_plan_refuses_bad_indices(name):
    x = _numbers(3, 4)
    SCATTERING[name](x, I)
    with pytest.raises(RuntimeError, match="index 3 is out of bounds for dimension 0 with size 3"):
        SCATTERING[name](x, I + 1)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("index_select", IndexError, "index out of range in self"),
        ("index_add", RuntimeError, "index 3 is out of bounds for dimension 0 with size 3"),
        ("index_add_", RuntimeError, "index 3 is out of bounds for dimension 0 with size 3"),
        ("index_copy", IndexError, "index_copy_\\(\\): index 3 is out of bounds for dimension 0 with size 3"),
        ("index_fill", IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
        ("__getitem__", IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    ],
)
def test_kept_plans_of_rows_refuse_bad_indices(name, error, words):
    x = _numbers(3, 4)
    more = {"index_select": (), "index_fill": (1.0,), "__getitem__": ()}.get(name, (torch.ones(2, 4),))
    for index in (ROW, ROW, ROW + 1):
        call = (index,) if name == "__getitem__" else (0, index, *more)
        if index is ROW:
            getattr(x, name)(*call)
        else:
            with pytest.raises(error, match=words):
                getattr(x, name)(*call)


def test_a_write_in_place_from_its_own_memory_is_refused_or_copied():
    x = _numbers(4)
    y = _numbers(4)
    i = torch.tensor([1, 0])
    y.scatter_(0, i, _numbers(2))
    y.scatter_(0, i, _numbers(2))
    with pytest.raises(RuntimeError, match="single memory location"):
        x.scatter_(0, torch.tensor([1, 0]), x[:2])
    assert x[:2].scatter_(0, i, x[2:]).tolist() == [3, 2]


def test_numbers_of_another_kind_are_written_as_they_are():
    x = torch.zeros(3, dtype=torch.int64)
    i = torch.tensor([1])
    assert [x.scatter(0, i, value).tolist() for value in (1, 2, True, 3.7)] == [[0, 1, 0], [0, 2, 0], [0, 1, 0], [0, 3, 0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x.scatter_add(0, I, y[:2]),
        lambda x, y: x.scatter(0, torch.tensor([[0, 1, 0, 2], [1, 0, 2, 1]]), y[:2]),
        lambda x, y: x[ROW] * y[:2],
        lambda x, y: x[x.detach() > 0] ** 2,
        lambda x, y: x[torch.tensor([True, False, True])] ** 2 * y[:2],
        lambda x, y: torch.hstack([x, y]) ** 2,
        lambda x, y: torch.vstack([x[0], y]) ** 2,
        lambda x, y: torch.einsum("ij,kj->ki", x, y),
        lambda x, y: torch.einsum("ij,ij->j", x, y),
        lambda x, y: torch.einsum("ij,kl->jl", x[:, :1], y),
        lambda x, y: torch.outer(x[0], y[1]) ** 2,
        lambda x, y: x.reshape(3, 2, 2) @ y[:2, :2],
        lambda x, y: x.reshape(3, 1, 2, 2) @ y.reshape(3, 2, 2).transpose(1, 2),
        lambda x, y: x[:2, :2] @ y.reshape(3, 2, 2),
        lambda x, y: torch.diag_embed(x) * torch.diag_embed(y),
        lambda x, y: torch.cross(x, y, 0),
        lambda x, y: torch.linalg.cross(x[:, :1], y, dim=0),
        lambda x, y: torch.cat([x, y], -1) ** 2,
        lambda x, y: torch.stack([x, y], -1) ** 2,
    ],
)
def test_gradients(call):
    torch.manual_seed(0)
    x, y = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    for _ in range(2):
        assert torch.autograd.gradcheck(call, (x, y)) and torch.autograd.gradgradcheck(call, (x, y))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3, 4), (2, 4, 5)),
        ((2, 3, 4), (1, 4, 5)),
        ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 2, 3, 4), (2, 2, 4, 5)),
        ((2, 1, 3, 4), (3, 4, 5)),
        ((2, 0, 4), (4, 5)),
        ((2, 3, 0), (2, 0, 5)),
        ((2, 1, 2, 3, 4), (1, 3, 2, 4, 5)),
    ],
)
def test_products_of_batches(a, b):
    x, y = (np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in (a, b))
    given = torch.tensor(x), torch.tensor(y.swapaxes(-1, -2).copy()).transpose(-1, -2)
    for _ in range(2):
        made = torch.matmul(*given)
        assert made.is_contiguous() and np.allclose(made.numpy(), x @ y, atol=1e-5)


def test_products_of_batches_are_one_step():
    x, y = torch.ones(2, 3, 4, requires_grad=True), torch.ones(2, 4, 5, requires_grad=True)
    step = (x @ y).grad_fn
    assert step.name() == "UnsafeViewBackward0"
    assert (x[0] @ y).grad_fn.name() == "CloneBackward0"
    assert torch.einsum("bij,bjk->bik", x, y).grad_fn.name() == "ViewBackward0"


@pytest.mark.parametrize(
    ("equation", "shapes", "strides"),
    [
        ("ij,jk->ki", [(3, 4), (4, 5)], (3, 1)),
        ("bij,bkj->ibk", [(2, 3, 4), (2, 5, 4)], (5, 15, 1)),
        ("bthd,bshd->bhts", [(2, 3, 4, 5), (2, 6, 4, 5)], (72, 18, 6, 1)),
        ("ij,ij->", [(3, 4), (3, 4)], ()),
        ("i,j->ij", [(3,), (4,)], (4, 1)),
        ("abc,cab->b", [(2, 3, 4), (4, 2, 3)], (1,)),
        (",->", [(), ()], ()),
        (",i->i", [(), (3,)], (1,)),
        ("abcde,abcde->eca", [(2, 3, 1, 2, 2)] * 2, (2, 2, 1)),
    ],
)
def test_einsum(equation, shapes, strides):
    arrays = [np.random.default_rng(1).standard_normal(shape) for shape in shapes]
    for _ in range(2):
        made = torch.einsum(equation, *map(torch.tensor, arrays))
        assert np.allclose(made.numpy(), np.einsum(equation, *arrays))
        assert made.stride() == strides or 1 in made.shape


def test_gradients_that_are_views_reach_leaves_without_a_copy():
    a, b, g = torch.ones(2, 3, requires_grad=True), torch.ones(1, 3, requires_grad=True), torch.ones(3, 3)
    torch.cat([a, b]).backward(g)
    assert a.grad.data_ptr() == g.data_ptr() and b.grad.data_ptr() == g[2].data_ptr() and a.grad._base is None
    (x := torch.ones(2, 3, requires_grad=True)).t().backward(turned := torch.ones(2, 3).t())
    assert x.grad.data_ptr() == turned.data_ptr() and x.grad.stride() == (3, 1)
    (y := torch.ones(2, 3, requires_grad=True)).t().backward(torch.ones(3, 2))
    assert y.grad.stride() == (3, 1)


def test_two_leaves_never_have_one_gradient():
    x, y = torch.ones(2, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True)
    (x.view(-1) + y.view(-1)).backward(torch.ones(6))
    x.grad.mul_(5)
    assert y.grad.tolist() == [[1, 1]] * 3


def test_a_few_normal_samples_are_one_stream():
    torch.manual_seed(7)
    whole = torch.randn(12)
    torch.manual_seed(7)
    parts = [torch.randn(2, 2), torch.randn(3), torch.randn_like(torch.zeros(2)), torch.randn(1), torch.randn(2)]
    assert torch.cat([x.reshape(-1) for x in parts]).tolist() == whole.tolist()


def test_factories_follow_the_defaults():
    first = [torch.tensor(1.5).dtype, torch.rand(2).dtype, torch.full((2,), 1.0).dtype, torch.empty(2).dtype]
    torch.set_default_dtype(torch.float64)
    try:
        assert [torch.tensor(1.5).dtype, torch.rand(2).dtype, torch.full((2,), 1.0).dtype, torch.empty(2).dtype] == [
            torch.float64
        ] * 4
    finally:
        torch.set_default_dtype(torch.float32)
    assert first == [torch.float32] * 4
    with torch.device("meta"):
        assert {x.device.type for x in (torch.tensor(1.5), torch.rand(2), torch.full((2,), 1.0), torch.empty(2))} == {"meta"}


def test_full_and_tensor_keep_the_value_and_its_kind():
    assert [torch.full((1,), value).tolist() for value in (1, 1.0, True, -0.0)] == [[1], [1.0], [True], [-0.0]]
    assert [torch.tensor(value).dtype for value in (1, 1.0, True)] == [torch.int64, torch.float32, torch.bool]
    assert torch.tensor(7).requires_grad is False and torch.tensor(2.5, requires_grad=True).requires_grad
    with pytest.raises(ValueError, match="Overflow"):
        torch.tensor(1 << 70)


def test_memory_format_that_is_there_already_copies_nothing():
    x = torch.ones(1, 2, 3, 3)
    turned = x.to(memory_format=torch.channels_last)
    assert turned.to(memory_format=torch.channels_last, copy=True) is not turned
    assert turned.to(memory_format=torch.channels_last) is turned
    assert x.to(memory_format=torch.channels_last) is not x


def test_equal():
    x, nan = torch.tensor([1.0, 2.0]), torch.tensor([float("nan")])
    for _ in range(2):
        assert torch.equal(x, torch.tensor([1, 2])) and not torch.equal(x, x.flip(0)) and not torch.equal(nan, nan)
        assert torch.equal(x.expand(2, 2), torch.tensor([[1.0, 2.0]] * 2)) and not torch.equal(x, x[:1])
        assert torch.equal(torch.empty(0), torch.empty(0)) and torch.equal(torch.tensor(3), torch.tensor(3))


def test_parts_again():
    x = _numbers(4, 3).requires_grad_()
    for _ in range(2):
        parts = (*x.chunk(2), *x.split(3), *x.unbind(1))
        assert [p.grad_fn.name() for p in parts] == ["SplitBackward0"] * 4 + ["UnbindBackward0"] * 3
        sum(p.sum() for p in parts).backward()
    assert x.grad.tolist() == [[6.0] * 3] * 4


def test_sizes_may_be_named():
    for make in (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn):
        assert make(size=(2, 3)).shape == (2, 3) and make(size=[4], dtype=torch.float64).dtype is torch.float64
    x = torch.ones(1, dtype=torch.int64)
    for make in (x.new_empty, x.new_zeros, x.new_ones):
        assert make(size=(2, 3)).shape == (2, 3) and make(size=(2,)).dtype is torch.int64
    assert torch.zeros(size=(2,)).tolist() == [0, 0] and x.new_ones(size=(2,)).tolist() == [1, 1]

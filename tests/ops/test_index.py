"""index, index_put and the operators that read or write whole slices: values against NumPy, gradients numerically,
errors."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck


def leaf(*shape: int):
    return torch.from_numpy(np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape)).requires_grad_(True)


@pytest.mark.parametrize(
    "key",
    [
        ([2, 0],),
        ([[2, 0], [1, 1]],),
        (slice(None), [0, 3]),
        ([0, 1], [2, 3]),
        (slice(None), [1, 2], [0, 4]),
        ([0, 1], slice(None), [2, 3]),
        (Ellipsis, [4, 0]),
        (None, [1]),
        ([[0], [2]], [1, 2]),
        ([-1, -3],),
    ],
    ids=str,
)
def test_getitem_and_setitem_follow_numpy(key):
    x = np.arange(60.0).reshape(3, 4, 5)
    t = torch.from_numpy(x.copy())
    own = tuple(torch.tensor(k) if isinstance(k, list) else k for k in key)
    theirs = tuple(np.array(k) if isinstance(k, list) else k for k in key)
    assert np.array_equal(t[own].numpy(), x[theirs])
    x[theirs] = -1
    t[own] = -1
    assert np.array_equal(t.numpy(), x)


def test_masks():
    x = np.arange(12.0).reshape(3, 4)
    t, m = torch.from_numpy(x.copy()), torch.from_numpy(x % 3 == 0)
    assert np.array_equal(t[m].numpy(), x[x % 3 == 0])
    assert np.array_equal(t[m[:, 0]].numpy(), x[x[:, 0] % 3 == 0])
    t[m] = 5
    x[x % 3 == 0] = 5
    assert np.array_equal(t.numpy(), x)
    with pytest.raises(IndexError, match=r"The shape of the mask \[4, 3\] at index 0 does not match"):
        t[m.t()]


def test_gradients_of_index():
    i, j = torch.tensor([0, 2, 2]), torch.tensor([1, 1, 3])
    assert gradcheck(lambda x: x[i, j], leaf(3, 4)) and gradgradcheck(lambda x: x[i] ** 2, leaf(3, 4))
    assert gradcheck(lambda x, v: x.index_put((i, j), v, accumulate=True), (leaf(3, 4), leaf(3)))
    assert gradcheck(lambda x, v: x.index_put((i[:2],), v), (leaf(3, 4), leaf(2, 4)))
    assert leaf(3, 4)[i].grad_fn.name() == "IndexBackward0"


def test_in_place_writes_enter_the_graph():
    x, v = leaf(3, 4), leaf(2, 4)
    y = x * 1
    y[torch.tensor([0, 2])] = v
    y.sum().backward()
    assert x.grad.tolist() == [[0] * 4, [1] * 4, [0] * 4] and v.grad.tolist() == [[1] * 4] * 2


def test_accumulation_is_ordered_and_complete():
    rng = np.random.default_rng(0)
    index, values = rng.integers(0, 100, 5000), rng.standard_normal((5000, 96)).astype("f4")
    expected = np.zeros((100, 96), "f4")
    np.add.at(expected, index, values)
    for _ in range(3):
        found = torch.zeros(100, 96).index_add_(0, torch.from_numpy(index), torch.from_numpy(values))
        assert np.array_equal(found.numpy(), expected)
    across = torch.zeros(96, 100).index_add_(1, torch.from_numpy(index), torch.from_numpy(values.T.copy()))
    assert np.array_equal(across.numpy(), expected.T)


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda x, i: x[i], IndexError, "index 9 is out of bounds for dimension 0 with size 3"),
        (lambda x, i: x[:, -i], IndexError, "index -9 is out of bounds for dimension 1 with size 4"),
        (lambda x, i: x.index_select(0, i), IndexError, "index out of range in self"),
        (lambda x, i: x.index_add(0, i, x[:1]), RuntimeError, "index 9 is out of bounds for dimension 0 with size 3"),
        (lambda x, i: x.index_copy(0, i, x[:1]), IndexError, r"index_copy_\(\): index 9 is out of bounds"),
        (lambda x, i: x.index_fill(0, i, 1.0), IndexError, "index 9 is out of bounds"),
        (lambda x, i: x.take(i * 9), IndexError, "tried to access index 81 on a tensor of 12 elements"),
        (lambda x, i: x.put(i * 9, torch.ones(1, dtype=torch.float64)), IndexError, "tried to access index 81"),
        (lambda x, i: x.index_put((i,), torch.ones(1)), RuntimeError, "source and destination dtypes match"),
        (lambda x, i: x.index_select(0, i.double()), RuntimeError, "Expected dtype int32 or int64 for index"),
    ],
)
def test_errors(call, kind, words):
    x = torch.zeros(3, 4, dtype=torch.float64)
    with pytest.raises(kind, match=words):
        call(x, torch.tensor([9]))
    assert x.sum() == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x.index_select(1, torch.tensor([0, 0, 3])),
        lambda x, y: x.index_add(0, torch.tensor([1, 1, 0]), y, alpha=2),
        lambda x, y: x.index_copy(0, torch.tensor([2, 0]), y[:2]),
        lambda x, y: x.index_fill(1, torch.tensor([0]), 2.0),
        lambda x, y: x.take(torch.tensor([0, -1, 0])),
        lambda x, y: x.put(torch.tensor([0, 5]), y[0, :2]),
        lambda x, y: torch.take_along_dim(x, torch.tensor([[0], [1], [1]]), 1),
        *[
            lambda x, y, r=r, s=s: x.index_reduce(1, torch.tensor([0, 0, 3]), y[:, :3], r, include_self=s)
            for r in ("prod", "mean", "amax", "amin")
            for s in (True, False)
        ],
    ],
)
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_gradients_of_slices(call):
    inputs = (leaf(3, 4), torch.from_numpy(np.linspace(-1, 1, 12).reshape(3, 4)).requires_grad_(True))
    used = lambda x, y: call(x, y) + 0 * y.sum()
    assert gradcheck(used, inputs)


def test_half_precision_sums_round_once():
    x = torch.ones(1, 4, dtype=torch.bfloat16)
    found = x.index_add(0, torch.zeros(512, dtype=torch.int64), torch.full((512, 4), 2**-9, dtype=torch.bfloat16))
    assert found.float().tolist() == [[2.0] * 4]


def test_index_on_the_meta_device():
    """It tells the shape of the result alone: the values are whatever the memory held, as in PyTorch."""
    x, index = torch.arange(6.0).view(2, 3), torch.tensor([0, 1, 1], device="meta")
    for result, shape in ((x.index_select(0, index), (3, 3)), (torch.take(x, index), (3,)), (x.take(index.view(3, 1)), (3, 1))):
        assert result.device.type == "cpu" and result.shape == shape and result.dtype == x.dtype
    assert x.to("meta").index_select(1, torch.tensor([0])).device.type == "meta"


def test_take_along_dim_counts_positions_round_and_round():
    x = torch.arange(9.0).reshape(3, 3)
    assert torch.take_along_dim(x, torch.tensor([[-7, -5, 5, -1]]), 1).tolist() == [[2, 1, 2, 2], [5, 4, 5, 5], [8, 7, 8, 8]]
    assert torch.take_along_dim(x, torch.tensor([0, 8])).tolist() == [0, 8]
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.take_along_dim(x, torch.tensor([-1]))


def test_a_number_as_out_of_arithmetic():
    assert torch.add(torch.ones(3).long(), torch.tensor(2), out=5).tolist() == [3, 3, 3]


def test_index_fill_on_the_meta_device():
    filled = torch.ones(3, device="meta").index_fill(0, torch.tensor([0], device="meta"), 2.0)
    assert (filled.shape, filled.device.type) == ((3,), "meta")


def test_masks_of_bytes_warn_once_where_the_program_uses_them():
    x, mask = torch.arange(6.0).view(3, 2), torch.tensor([1, 0, 1], dtype=torch.uint8)
    for use in (lambda: x[mask], lambda: x.__setitem__(mask, torch.ones(2, 2)), lambda: x.index_put_((mask,), torch.ones(2, 2))):
        with pytest.warns(UserWarning, match="uint8 is now deprecated, please use a dtype torch.bool") as caught:
            use()
        assert [w.filename for w in caught] == [__file__]
    with pytest.raises(IndexError, match=r"shape of the mask \[2\]"):
        x[mask[:2]]


def test_one_number_under_one_mask_is_cast_and_needs_a_mask_of_booleans():
    x, mask = torch.zeros(3, 2), torch.tensor([True, False, True])
    x.index_put_((mask,), torch.tensor([2]))
    assert x.tolist() == [[2, 2], [0, 0], [2, 2]]
    assert torch.zeros(3, dtype=torch.int32).index_put((mask,), torch.tensor(1.5)).tolist() == [1, 0, 1]
    with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
        x.index_put_((mask,), torch.tensor(1j))
    with pytest.raises(RuntimeError, match="dtypes match, got Float for the destination and Long"):
        x.index_put_((mask,), torch.tensor([1]), accumulate=True)
    for write in (lambda m: x.__setitem__(m, 1.0), lambda m: x.index_put_((m,), torch.tensor(1.0))):
        with pytest.raises(RuntimeError, match="only supports boolean masks, but got mask with dtype unsigned char"):
            write(mask.byte())


def test_indices_are_checked_where_slices_are_empty():
    index = torch.tensor([0, 5])
    for _ in range(2):
        for select in (
            lambda: torch.zeros(0, 3).index_select(1, index),
            lambda: torch.zeros(3, 0).index_select(0, index),
            lambda: torch.nn.functional.embedding(index, torch.zeros(3, 0)),
        ):
            with pytest.raises(RuntimeError, match="INDICES element is out of DATA bounds, id=5 axis_dim=3"):
                select()
        assert torch.zeros(3, 0).index_select(0, index[:1]).shape == (1, 0)


def test_out_of_a_factory_has_the_layout_asked_for_and_may_require_grad():
    for make in (torch.zeros, torch.ones, torch.rand, torch.empty, torch.eye, torch.arange, torch.randperm):
        with pytest.raises(RuntimeError, match=r"layout Sparse does not match layout of out parameter \(Strided\)"):
            make(3, out=make(3), layout=torch.sparse_coo)
    with pytest.raises(RuntimeError, match="device type meta does not match device type of out parameter"):
        torch.empty(3, out=torch.empty(3), device="meta")
    with pytest.raises(RuntimeError, match=r"dtype Int does not match dtype of out parameter \(Float\)"):
        torch.range(0, 3, out=torch.empty(4), dtype=torch.int32)
    assert torch.zeros(3, out=torch.ones(3), requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require gradients"):
        torch.arange(3, out=torch.zeros(3, dtype=torch.int64), requires_grad=True)

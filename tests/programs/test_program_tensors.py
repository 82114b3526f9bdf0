"""Programs about tensors: creation, shapes, dtypes, indexing, arithmetic, what they print."""

import numpy as np
import pytest
from implementation import torch


def test_creation():
    assert torch.tensor([[1.0, 2.0], [3.0, 4.0]]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert torch.zeros(3, 4).sum().item() == 0 and torch.ones(2, 2).sum().item() == 4
    assert torch.arange(0, 10, 2).tolist() == [0, 2, 4, 6, 8]
    assert torch.linspace(0, 1, steps=5).tolist() == [0, 0.25, 0.5, 0.75, 1.0]
    assert torch.randn(2, 3, 4).shape == (2, 3, 4)
    assert torch.full((2,), 7).tolist() == [7, 7] and torch.eye(2).tolist() == [[1, 0], [0, 1]]
    assert torch.zeros_like(torch.ones(3, dtype=torch.int64)).dtype is torch.int64


def test_shape_inspection():
    x = torch.randn(2, 3, 4)
    assert x.shape == torch.Size([2, 3, 4]) and str(x.shape) == "torch.Size([2, 3, 4])"
    assert x.ndim == 3 and x.numel() == 24 and x.size(0) == 2 and x.size(-1) == 4 and len(x) == 2


def test_reshaping():
    x = torch.randn(6, 4)
    assert x.view(24).shape == x.reshape(24).shape == (24,)
    assert x.unsqueeze(0).shape == (1, 6, 4) and x.unsqueeze(0).squeeze().shape == (6, 4)
    assert x.permute(1, 0).shape == x.transpose(0, 1).shape == x.t().shape == x.T.shape == (4, 6)
    assert x.view(2, -1).shape == (2, 12)


def test_a_view_shares_memory_and_a_transposed_one_is_not_contiguous():
    x = torch.arange(6)
    y = x.view(2, 3)
    y[0, 0] = 100
    assert x[0].item() == 100
    transposed = y.t()
    assert not transposed.is_contiguous() and transposed.contiguous().is_contiguous()
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size and stride"):
        transposed.view(6)
    assert transposed.reshape(6).tolist() == [100, 3, 1, 4, 2, 5]


@pytest.mark.parametrize(
    ("cast", "dtype"),
    [
        (lambda x: x.to(torch.float16), "float16"),
        (lambda x: x.half(), "float16"),
        (lambda x: x.bfloat16(), "bfloat16"),
        (lambda x: x.long(), "int64"),
        (lambda x: x.float(), "float32"),
        (lambda x: x.double(), "float64"),
        (lambda x: x.bool(), "bool"),
        (lambda x: x.to("cpu", torch.int32), "int32"),
    ],
)
def test_casts(cast, dtype):
    x = cast(torch.tensor([1.7, -2.0, 0.0]))
    assert x.dtype is getattr(torch, dtype) and str(x.dtype) == f"torch.{dtype}"
    expected = {"int64": [1, -2, 0], "int32": [1, -2, 0], "bool": [True, True, False]}.get(dtype)
    assert expected is None or x.tolist() == expected


def test_promotion():
    assert (torch.ones(2) + torch.ones(2, dtype=torch.int64)).dtype is torch.float32
    assert (torch.ones(2, dtype=torch.int64) / 2).dtype is torch.float32
    assert (torch.ones(2, dtype=torch.float16) + torch.ones(2)).dtype is torch.float32
    assert (torch.ones(2, dtype=torch.uint8) + 300).dtype is torch.uint8
    assert (torch.tensor([1, 2]) > 1).dtype is torch.bool


def test_indexing():
    x = torch.arange(32.0).view(4, 8)
    assert x[0].shape == (8,) and x[:, 2].tolist() == [2, 10, 18, 26]
    assert x[1:3, 4:6].tolist() == [[12, 13], [20, 21]]
    assert x[-1, -1].item() == 31 and x[..., 0].shape == (4,) and x[None].shape == (1, 4, 8)
    assert x[:, ::3].shape == (4, 3)
    mask = x > 28
    assert x[mask].tolist() == [29, 30, 31]
    assert x[torch.tensor([0, 2])].shape == (2, 8)
    assert x[torch.tensor([0, 2]), torch.tensor([1, 3])].tolist() == [1, 19]
    x[x > 5] = -1
    assert x.sum().item() == 0 + 1 + 2 + 3 + 4 + 5 - 26


def test_gather_and_scatter():
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    index = torch.tensor([[2], [0]])
    assert x.gather(1, index).tolist() == [[3.0], [4.0]]
    one_hot = torch.zeros(2, 3).scatter_(1, index, 1.0)
    assert one_hot.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert torch.nn.functional.one_hot(torch.tensor([2, 0]), 3).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert torch.where(x > 3, x, torch.zeros_like(x)).tolist() == [[0, 0, 0], [4, 5, 6]]


def test_matrix_products():
    x, w = torch.arange(12.0).view(3, 4), torch.arange(20.0).view(4, 5)
    np.testing.assert_allclose((x @ w).numpy(), x.numpy() @ w.numpy())
    a, b = torch.randn(8, 3, 4), torch.randn(8, 4, 5)
    np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=1e-5, atol=1e-5)
    assert torch.bmm(a, b).shape == (8, 3, 5) and torch.einsum("bij,bjk->bik", a, b).shape == (8, 3, 5)
    assert (a @ w).shape == (8, 3, 5) and (x @ torch.ones(4)).tolist() == [6, 22, 38]


def test_reductions():
    a = torch.tensor([[1.0, 5.0, 2.0], [7.0, 0.0, 4.0]])
    assert a.sum().item() == 19 and a.sum(dim=0).tolist() == [8, 5, 6]
    assert a.sum(dim=1, keepdim=True).shape == (2, 1) and a.mean().item() == pytest.approx(19 / 6)
    assert a.argmax(dim=1).tolist() == [1, 0] and a.max(dim=1).values.tolist() == [5, 7]
    values, indices = a.topk(2, dim=1)
    assert values.tolist() == [[5, 2], [7, 4]] and indices.tolist() == [[1, 2], [0, 2]]
    assert a.std().item() == pytest.approx(np.std(a.numpy(), ddof=1), rel=1e-6)
    assert a.var(dim=0).tolist() == [18.0, 12.5, 2.0] and a.norm().item() == pytest.approx(95**0.5)


def test_broadcasting():
    c = torch.ones(3, 1, 4) + torch.ones(1, 5, 4)
    assert c.shape == (3, 5, 4) and c.sum().item() == 120
    assert torch.ones(3, 4).expand(2, 3, 4).stride() == (0, 4, 1)


def test_numpy_shares_memory_both_ways():
    array = np.zeros(3, dtype=np.float32)
    x = torch.from_numpy(array)
    array[0] = 1
    assert x[0].item() == 1
    x += 1
    assert array.tolist() == [2, 1, 1] and x.numpy()[1] == 1


def test_joining_and_splitting():
    x = torch.arange(6.0).view(2, 3)
    assert torch.cat([x, x], dim=0).shape == (4, 3) and torch.stack([x, x]).shape == (2, 2, 3)
    assert [part.shape[1] for part in x.split(2, dim=1)] == [2, 1] and len(x.chunk(3, dim=1)) == 3
    assert torch.arange(3).repeat(2).tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.tensor([1.0, 2.0, 3.0]), "tensor([1., 2., 3.])"),
        (lambda: torch.tensor(7.0), "tensor(7.)"),
        (lambda: torch.tensor([4.0], requires_grad=True), "tensor([4.], requires_grad=True)"),
        (lambda: torch.tensor([1, 2]), "tensor([1, 2])"),
        (lambda: torch.tensor([True]), "tensor([True])"),
        (lambda: torch.tensor([1.5]).half(), "tensor([1.5000], dtype=torch.float16)"),
        (lambda: torch.tensor([[1.5, 1e-6], [100, 2]]), "tensor([[1.5000e+00, 1.0000e-06],\n        [1.0000e+02, 2.0000e+00]])"),
        (lambda: torch.ones(2, requires_grad=True) * 2, "tensor([2., 2.], grad_fn=<MulBackward0>)"),
        (lambda: torch.device("cpu"), "device(type='cpu')"),
        (lambda: torch.zeros(0), "tensor([])"),
    ],
)
def test_printed_form(make, text):
    assert repr(make()) == text

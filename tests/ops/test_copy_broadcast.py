"""copy_ from tensors of other shapes, assignment under a mask, items of every kind."""

import pytest

import flambeau as torch


def test_copy_broadcasts_and_refuses():
    target = torch.zeros(2, 3)
    for _ in range(2):
        assert target.copy_(torch.arange(3.0).view(1, 3)).tolist() == [[0, 1, 2], [0, 1, 2]]
    assert target.copy_(torch.tensor(5)).tolist() == [[5, 5, 5], [5, 5, 5]]
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        torch.zeros(1, 3).copy_(torch.ones(2, 3))
    source = torch.randn(3, requires_grad=True)
    torch.zeros(2, 3).copy_(source).sum().backward()
    assert source.grad.tolist() == [2, 2, 2]


def test_fill_under_mask_counts_as_one_write():
    x = torch.tensor([[1.0, -1.0], [-2.0, 3.0]])
    before = x._version
    x[x > 0] = 7
    assert x.tolist() == [[7, -1], [-2, 7]] and x._version == before + 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "int8", "bfloat16", "bool"])
def test_items(dtype):
    x = torch.tensor([0, 1, 5]).to(getattr(torch, dtype))
    for _ in range(2):
        values = [x[i].item() for i in range(3)]
        assert values == ([False, True, True] if dtype == "bool" else [0, 1, 5])
        assert {type(v) for v in values} == {bool if dtype == "bool" else float if "float" in dtype else int}

"""MaskedTensor: making, operators, reductions, views, layouts, gradients, text; what it refuses. Expected values by PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
DATA = torch.tensor([[0.0, 1, 2], [3, 4, 5]])
MASK = torch.tensor([[True, False, False], [False, True, True]])


def made(requires_grad: bool = False) -> Any:
    return masked_tensor(DATA, MASK, requires_grad)


def shown(x: Any) -> list[Any]:
    """The elements, None for those that are masked."""
    data, mask = x.get_data().detach(), x.get_mask()
    if x.is_sparse:
        data, mask = data.to_dense(), mask.to_dense()
    return [round(v, 4) if m else None for v, m in zip(data.flatten().tolist(), mask.flatten().tolist())]


def test_making_one() -> None:
    with pytest.warns(UserWarning, match="prototype stage"):
        x = masked_tensor(DATA, MASK)
    assert is_masked_tensor(x) and type(x) is MaskedTensor and not is_masked_tensor(DATA)
    assert (x.shape, x.dtype, x.stride(), x.layout, x.is_leaf) == ((2, 3), torch.float32, (3, 1), torch.strided, True)
    x.get_data()[0, 0] = 9  # data are a copy of what was given
    assert DATA[0, 0] == 0 and torch.equal(x.get_mask(), MASK)
    assert x.to_tensor(-1.0).tolist() == [[9, -1, -1], [-1, 4, 5]]


@pytest.mark.parametrize("data, mask, kind, words", [
    (0, MASK, TypeError, "data must be a Tensor"), (DATA, 0, TypeError, "mask must be a Tensor"),
    (DATA, MASK.float(), TypeError, "mask must have dtype bool"), (DATA, MASK[0], ValueError, r"data.dim\(\) must equal"),
    (DATA, MASK[:, :2], ValueError, r"data.size\(\) must equal"), (DATA.to_sparse(), MASK, TypeError, "the same layout"),
    (DATA.to(torch.complex64), MASK, TypeError, "complex64 is not supported")])  # fmt: skip
def test_parts_that_dont_fit(data: Any, mask: Any, kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        masked_tensor(data, mask)


def test_printing() -> None:
    assert repr(made()) == ("MaskedTensor(\n  [\n    [  0.0000,       --,       --],\n    [      --,   4.0000,   5.0000]\n  ]\n)")
    assert repr(masked_tensor(torch.tensor(3), torch.tensor(True))) == "MaskedTensor(3, True)"
    assert repr(masked_tensor(torch.tensor(3.0), torch.tensor(False))) == "MaskedTensor(--, False)"


@pytest.mark.parametrize("function, expected", [
    (lambda x: x + x, [0, None, None, None, 8, 10]), (lambda x: 2 * x - DATA, [0, None, None, None, 4, 5]),
    (lambda x: x**2, [0, None, None, None, 16, 25]), (lambda x: -x.sqrt(), [0, None, None, None, -2, -2.2361]),
    (lambda x: torch.clamp(x, min=1, max=4), [1, None, None, None, 4, 4]),
    (lambda x: (x < 5).to(torch.int8), [1, None, None, None, 1, 0]),
    (lambda x: torch.where(MASK, x, masked_tensor(DATA * 0, ~MASK)), [0, 0, 0, 0, 4, 5]),
    (lambda x: torch.softmax(x, -1), [1, None, None, None, 0.2689, 0.7311])])  # fmt: skip
def test_elementwise(function: Callable, expected: list[Any]) -> None:
    assert shown(function(made())) == expected


def test_masks_must_match() -> None:
    with pytest.raises(ValueError, match="Input masks must match"):
        made() + masked_tensor(DATA, ~MASK)
    x = made()
    assert x.add_(1) is x and shown(x) == [1, None, None, None, 5, 6]
    assert x.exp_() is x


@pytest.mark.parametrize("name, whole, rows", [
    ("sum", 9, [0, 4, 5]), ("mean", 3, [0, 4, 5]), ("prod", 0, [0, 4, 5]), ("amax", 5, [0, 4, 5]), ("amin", 0, [0, 4, 5]),
    ("argmax", 5, [0, 1, 1]), ("argmin", 0, [0, 1, 1])])  # fmt: skip
def test_reductions(name: str, whole: float, rows: list[float]) -> None:
    assert shown(getattr(made(), name)()) == [whole]
    assert shown(getattr(torch, name)(made(), dim=0)) == rows
    kept = getattr(made(), name)(1, keepdim=True)
    assert kept.shape == (2, 1)
    empty = masked_tensor(DATA, torch.tensor([[False, False, False], [True, False, False]]))
    assert shown(getattr(empty, name)(1))[0] is None  # nothing is chosen there
    assert shown(getattr(empty, name)(1))[1] in (0, 3)


def test_all_and_any() -> None:
    assert shown(masked_tensor(DATA > 3, MASK).all(0)) == [False, True, True]
    assert shown(masked_tensor(DATA > 4, MASK)._is_any_true()) == [True]
    with pytest.raises(ValueError, match="expected a boolean tensor"):
        made()._is_any_true()


@pytest.mark.parametrize("function", [
    lambda x: x.view(-1), lambda x: x[:, 1:], lambda x: x.t(), lambda x: x.transpose(0, 1), lambda x: torch.stack([x, x]),
    lambda x: torch.cat([x, x]), lambda x: x.unfold(1, 2, 1), lambda x: x.expand(2, 2, 3), lambda x: x.reshape(3, 2),
    lambda x: x.unsqueeze(0), lambda x: x.unbind(0)[1]])  # fmt: skip
def test_views_and_joins_act_on_data_and_mask(function: Callable) -> None:
    x = made(True)
    y = function(x)
    assert torch.equal(y.get_data(), function(DATA)) and torch.equal(y.get_mask(), function(MASK))
    y.sum().backward()
    t = DATA.clone().requires_grad_()
    function(t).masked_fill(~function(MASK), 0).sum().backward()
    assert torch.equal(x.grad.get_data(), t.grad)


@pytest.mark.parametrize("function", [
    lambda x: x.sum(), lambda x: x.mean(), lambda x: x.exp().sum(), lambda x: x.prod(1).sum(), lambda x: x.amax(0).sum(),
    lambda x: torch.softmax(x, -1).exp().sum(), lambda x: (x * x).mean(0).sum(), lambda x: x.var(1, correction=0).sum(),
])  # fmt: skip
def test_gradients_are_numerical_ones(function: Callable) -> None:
    data = (DATA + torch.rand(2, 3)).double()
    x = masked_tensor(data, MASK, requires_grad=True)
    function(x).backward()
    assert is_masked_tensor(x.grad) and torch.equal(x.grad.get_mask(), MASK)
    for i, j in MASK.nonzero().tolist():
        step = torch.zeros(2, 3, dtype=torch.float64)
        step[i, j] = 1e-6
        ahead, behind = (function(masked_tensor(data + s, MASK)).get_data().item() for s in (step, -step))
        assert abs((ahead - behind) / 2e-6 - x.grad.get_data()[i, j].item()) < 1e-5


def test_the_graph_of_data() -> None:
    leaf = DATA.clone().requires_grad_()
    as_masked_tensor(leaf, MASK).sum().backward()
    assert leaf.grad.tolist() == [[1, 0, 0], [0, 1, 1]]
    with pytest.warns(UserWarning, match="It is not recommended"):
        x = masked_tensor(leaf, MASK)
    assert not x.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        x.sum().backward()
    with pytest.raises(RuntimeError, match="Only Tensors of floating point"):
        masked_tensor(DATA.long(), MASK, requires_grad=True)
    twin = copy.deepcopy(made(True))
    assert twin.requires_grad and twin.is_leaf and shown(twin) == shown(made())


def test_layouts() -> None:
    x = made(True)
    for sparse in (x.to_sparse(), x.to_sparse_csr()):
        assert sparse.is_sparse and shown(sparse) == shown(x)
        assert shown(sparse.exp()) == shown(x.exp())
        assert shown(sparse + sparse) == shown(x + x)
        assert shown(sparse.sum()) == [9] and shown(sparse.to_dense()) == shown(x)
        with pytest.raises(ValueError, match="do not have is_contiguous"):
            sparse.is_contiguous()
    x.to_sparse().to_dense().sum().backward()
    assert x.grad.get_data().tolist() == [[1, 0, 0], [0, 1, 1]]
    turned = masked_tensor(DATA.t(), MASK.t())
    assert not turned.is_contiguous() and turned.contiguous().is_contiguous()


def test_what_has_no_meaning_under_a_mask_yet() -> None:
    for call in (lambda x: x.max(), torch.relu, lambda x: x @ x.t(), lambda x: torch.nn.functional.linear(x, x)):
        with pytest.raises(TypeError, match=r"torch._ops.aten.*get_data\(\)"):
            call(made())
    with pytest.raises(ValueError, match="expected a mask"):
        masked_tensor(torch.tensor(1.0), torch.tensor(False)).item()

"""torch._foreach_*: an operator over lists of tensors."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau.ops.elementwise.foreach import BINARY, FOREACH, UNARY


def pair() -> list[Any]:
    return [torch.tensor([0.25, 0.5]), torch.tensor([[0.75]], dtype=torch.float64)]


def same(made: Any, wanted: Any) -> bool:
    return len(made) == len(wanted) and all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(made, wanted, strict=True))


@pytest.mark.parametrize("operator", UNARY)
def test_an_operator_of_one_operand_is_run_for_each_tensor(operator: str) -> None:
    wanted = [getattr(x, operator)() for x in pair()]
    made = getattr(torch, f"_foreach_{operator}")(pair())
    assert isinstance(made, tuple) and same(made, wanted)
    tensors = pair()
    memory = [x.data_ptr() for x in tensors]
    assert getattr(torch, f"_foreach_{operator}_")(tensors) is tensors
    assert same(tensors, wanted) and [x.data_ptr() for x in tensors] == memory


@pytest.mark.parametrize("operator", BINARY)
def test_an_operator_of_two_operands_takes_numbers_lists_of_numbers_and_lists_of_tensors(operator: str) -> None:
    of_number, of_tensor = BINARY[operator]
    function, inplace = getattr(torch, f"_foreach_{operator}"), getattr(torch, f"_foreach_{operator}_")
    others = [torch.tensor([0.3, 2.0]), torch.tensor([[0.5]], dtype=torch.float64)]
    for other, wanted in (
        (0.5, [getattr(x, of_number)(0.5) for x in pair()]),
        ([0.5, 2], [getattr(x, of_number)(y) for x, y in zip(pair(), (0.5, 2), strict=True)]),
        (others, [getattr(x, of_tensor)(y) for x, y in zip(pair(), others, strict=True)]),
    ):
        assert same(function(pair(), other), wanted)
        tensors = pair()
        assert inplace(tensors, other) is tensors and same(tensors, wanted)


def test_values_that_pytorch_gives() -> None:
    a, x, y = [torch.tensor([1.0, 2.0]), torch.tensor([3])], [torch.tensor([3.0, 4.0])], [torch.tensor([5.0, 6.0])]
    lists = [
        (torch._foreach_add(a, [1, 2.5]), [[2.0, 3.0], [5.5]]),
        (torch._foreach_add(a, a, alpha=3), [[4.0, 8.0], [12]]),
        (torch._foreach_add(a, torch.tensor(2.0), alpha=2), [[5.0, 6.0], [7.0]]),
        (torch._foreach_sub(x, y, alpha=2), [[-7.0, -8.0]]),
        (torch._foreach_norm(x), [5.0]),
        (torch._foreach_powsum(x), [25.0]),
        (torch._foreach_max(x), [4.0]),
        (torch._foreach_pow(2, x), [[8.0, 16.0]]),
        (torch._foreach_addcmul(x, x, x, torch.tensor([2.0])), [[21.0, 36.0]]),
        (torch._foreach_addcmul(x, x, x, [2.0]), [[21.0, 36.0]]),
        (torch._foreach_addcdiv(x, x, x, 2), [[5.0, 6.0]]),
        (torch._foreach_lerp(x, y, [torch.tensor([0.5, 0.25])]), [[4.0, 4.5]]),
        (torch._foreach_lerp(x, y, 0.5), [[4.0, 5.0]]),
        (torch._foreach_mm([torch.eye(2)], [torch.ones(2, 1)]), [[[1.0], [1.0]]]),
    ]
    for made, wanted in lists:
        assert [t.tolist() for t in made] == wanted
    assert torch._foreach_norm(x, 1, dtype=torch.float64)[0].dtype == torch.float64
    assert torch._foreach_copy_(x, [torch.tensor([2, 1])])[0].tolist() == [2.0, 1.0] == x[0].tolist()
    torch._foreach_addcmul_(x, y, y, value=-1)
    assert x[0].tolist() == [-23.0, -35.0]
    copy = torch._foreach_clone(x)
    torch._foreach_zero_(x)
    assert x[0].tolist() == [0.0, 0.0] and copy[0].tolist() == [-23.0, -35.0]


def test_gradients_pass_through() -> None:
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    torch._foreach_mul([x], [x.detach()])[0].sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_lists_that_do_not_fit_are_refused() -> None:
    a = pair()
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_sqrt([])
    with pytest.raises(RuntimeError, match="must have the same number of tensors, got 2 and 1"):
        torch._foreach_add(a, a[:1])
    with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
        torch._foreach_add_(a, [1])
    with pytest.raises(RuntimeError, match="expected to be 0 dim but it has 1 dimensions and 2 elements"):
        torch._foreach_mul(a, torch.tensor([2.0, 3.0]))
    with pytest.raises(TypeError, match=r"argument 'other' \(position 2\) must be tuple of Tensors, not int"):
        torch._foreach_sub(a, 1, alpha=2)
    with pytest.raises(TypeError, match="must be tuple of Tensors, not Tensor"):
        torch._foreach_sqrt(torch.ones(2))
    with pytest.raises(TypeError, match="must be Number, not str"):
        torch._foreach_add(a, "x")


def test_every_name_is_offered() -> None:
    assert len(FOREACH) == 91 and all(getattr(torch, name) is function for name, function in FOREACH.items())


def test_lists_of_other_lengths() -> None:
    x = [torch.ones(1), torch.ones(1)]
    with pytest.raises(RuntimeError, match=r"^Tensor list must have same number of elements as scalar list.$"):
        torch._foreach_add(x, [])
    with pytest.raises(RuntimeError, match=r"^Expected packed scalar Tensor to be of dimension 1. Got 0 instead.$"):
        torch._foreach_addcmul(x, x, x, scalars=torch.tensor(1.0))
    with pytest.raises(RuntimeError, match=r"^Expected length of scalars to match input of length 2 but got 3 instead.$"):
        torch._foreach_addcmul(x, x, x, scalars=torch.ones(3))
    assert [y.item() for y in torch._foreach_addcmul(x, x, x, scalars=torch.tensor([1.0, 2.0]))] == [2, 3]


def test_choices_among_many_dimensions() -> None:
    x = torch.ones([1] * 65)
    assert x.sum().item() == 1 and x.unsqueeze(0).dim() == 66 and x.cumsum(0).dim() == 65
    for call in (lambda: x.sum(0), lambda: x.amax(0), lambda: x.norm(dim=0), lambda: x.flip(0), lambda: x.mean((0, 1))):
        with pytest.raises(RuntimeError, match=r"^only tensors with up to 64 dims are supported$"):
            call()
    with pytest.raises(RuntimeError, match=r"^index_fill_\(\): Converting complex Scalar to non-complex type is not supported$"):
        torch.ones(2).index_fill(0, torch.tensor([0]), 1j)

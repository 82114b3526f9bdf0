"""Arguments by the names that PyTorch takes them by: one call by name, and the same by position. Under PyTorch as well."""

import pytest
from implementation import torch

X = torch.arange(12.0).reshape(3, 4)
V = torch.arange(4.0)
PLACES = torch.tensor([0, 2])
BY_NAME = [
    (lambda: torch.zeros(size=(2, 3)), lambda: torch.zeros(2, 3)),
    (lambda: X.new_ones(size=[2]), lambda: X.new_ones(2)),
    (lambda: X.clone().resize_(size=(2,)), lambda: X.clone().resize_(2)),
    (lambda: torch.arange(end=3), lambda: torch.arange(3)),
    (lambda: torch.arange(start=1, end=3), lambda: torch.arange(1, 3)),
    (lambda: torch.randint(high=1, size=(2,)), lambda: torch.randint(1, (2,))),
    (lambda: torch.randint_like(X, high=1), lambda: torch.randint_like(X, 1)),
    (lambda: V.repeat(repeats=(2, 1)), lambda: V.repeat(2, 1)),
    (lambda: torch.repeat_interleave(repeats=PLACES), lambda: torch.repeat_interleave(PLACES)),
    (lambda: torch.swapaxes(input=X, axis0=0, axis1=1), lambda: X.t()),
    (lambda: X.clone().swapaxes_(axis0=0, axis1=1), lambda: X.t()),
    (lambda: X.split(split_size=2)[1], lambda: X.split(2)[1]),
    (lambda: X.tensor_split(sections=2, dim=1)[1], lambda: X.tensor_split(2, 1)[1]),
    (lambda: torch.vsplit(X, indices=(1,))[1], lambda: torch.vsplit(X, (1,))[1]),
    (lambda: torch.cat(tensors=[X, X], axis=1), lambda: torch.cat([X, X], 1)),
    (lambda: torch.stack([X, X], axis=1), lambda: torch.stack([X, X], 1)),
    (lambda: X.gather(axis=1, index=PLACES[None]), lambda: X.gather(1, PLACES[None])),
    (lambda: X.index_select(axis=1, index=PLACES), lambda: X.index_select(1, PLACES)),
    (lambda: X.clone().cumsum_(axis=0), lambda: X.cumsum(0)),
    (lambda: torch.squeeze(X[:1], axis=0), lambda: X[0]),
    (lambda: torch.unsqueeze(X, axis=1), lambda: X.unsqueeze(1)),
    (lambda: torch.unbind(X, axis=1)[2], lambda: X[:, 2]),
    (lambda: torch.chunk(X, 2, axis=1)[1], lambda: X[:, 2:]),
    (lambda: torch.narrow(X, axis=1, start=1, length=2), lambda: X[:, 1:3]),
    (lambda: X.clone().copy_(other=X + 1), lambda: X + 1),
    (lambda: X.sum(axis=0, keepdims=True), lambda: X.sum(0, True)),
]


@pytest.mark.parametrize("at", range(len(BY_NAME)))
def test_arguments_by_name(at):
    by_name, by_position = BY_NAME[at]
    assert torch.equal(by_name(), by_position())


def test_result_type_by_name():
    assert torch.result_type(tensor=X, other=2) is torch.float32
    assert torch.result_type(scalar=2, tensor=PLACES) is torch.int64
    assert torch.result_type(scalar1=1, scalar2=2.0) is torch.float32


@pytest.mark.parametrize(
    ("given", "dtype"), [(int, torch.int64), (float, torch.float64), (bool, torch.bool), (complex, torch.complex128)]
)
def test_classes_of_numbers_are_dtypes(given, dtype) -> None:
    x = torch.ones(2)
    made = [
        torch.tensor([1], dtype=given), torch.as_tensor([1], dtype=given), torch.zeros(2, dtype=given), x.to(given),
        torch.ones((2,), dtype=given), torch.full((2,), 1, dtype=given), torch.empty(2, dtype=given), x.to(dtype=given),
        x.new_zeros(2, dtype=given), torch.zeros_like(x, dtype=given), x.sum(dtype=given),
    ]  # fmt: skip
    made += [] if given is bool else [x.cumsum(0, dtype=given)]
    made += [] if given in (bool, complex) else [torch.arange(3, dtype=given)]
    assert [y.dtype for y in made] == [dtype] * len(made)
    with pytest.raises(TypeError, match=r"zeros\(\): argument 'dtype' must be torch.dtype, not type"):
        torch.zeros(2, dtype=str)

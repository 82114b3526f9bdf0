"""Wrong calls of every family, with PyTorch's exception and the first line of its words.

The table beside this file holds (call, exception, first line), recorded from PyTorch 2.13 by
`record_bad_input.py`. The tests below the table ask for what a mistake leaves behind: nothing.
"""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from implementation import torch

nn, F = torch.nn, torch.nn.functional
RECORDED = json.loads((Path(__file__).parent / "bad_input_recorded.json").read_text())


def write(target, index, value):
    target[index] = value


@pytest.mark.parametrize(("call", "kind", "words"), RECORDED, ids=[call for call, _, _ in RECORDED])
def test_wrong_call(call, kind, words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(BaseException) as caught:
            eval(call, {"torch": torch, "nn": nn, "F": F, "np": np, "write": write})
    first = str(caught.value).split("\n")[0].replace("flambeau", "torch")
    if kind == "ZeroDivisionError":  # Python's own words: since 3.14 they are the same for every operator
        first, words = (re.sub(".*(by zero)", r"\1", text) for text in (first, words))
    assert (caught.type.__name__, first) == (kind, words)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda x: x.add_(torch.ones(7)),
        lambda x: x.copy_(torch.ones(7)),
        lambda x: x.set_(torch.ones(5), -1, (2,), (1,)),
        lambda x: x.scatter_(0, torch.tensor([99]), 5.0),
        lambda x: x.masked_fill_(torch.ones(7, dtype=torch.bool), 5.0),
        lambda x: torch.add(torch.ones(5).double(), 1j, out=x),
        lambda x: write(x, 9, 5.0),
    ],
)
def test_the_tensor_is_as_before(mistake):
    x = torch.arange(5.0)
    with pytest.raises((RuntimeError, IndexError)):
        mistake(x)
    assert x.tolist() == [0, 1, 2, 3, 4]
    assert x.shape == (5,)
    assert x.stride() == (1,)


def test_a_second_backward_leaves_gradients():
    x = torch.ones(3, requires_grad=True)
    y = (x**2).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_a_step_with_a_gradient_of_another_shape():
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=0.1)
    p.grad = torch.ones(2)
    p.data = torch.ones(3)
    with pytest.raises(RuntimeError, match="The size of tensor a \\(3\\) must match the size of tensor b \\(2\\)"):
        optimizer.step()
    assert p.tolist() == [1, 1, 1]


def test_more_memory_than_there_is():
    with pytest.raises(RuntimeError, match="can't allocate memory: you tried to allocate 4503599627370496 bytes"):
        torch.empty(2**50)
    assert torch.ones(3).sum() == 3


@pytest.mark.parametrize("integer", [np.int64(1), torch.tensor(1)], ids=["numpy", "tensor"])
def test_integers_of_other_kinds(integer):
    x = torch.arange(6.0).view(2, 3)
    assert x.roll(integer, integer).tolist() == [[2, 0, 1], [5, 3, 4]]
    assert x.movedim(integer, 0).shape == (3, 2)
    assert F.conv1d(x, torch.ones(1, 2, 1), None, integer, integer).tolist() == [[0, 3, 5, 7, 0]]


def test_numbers_where_tensors_are_usual():
    x = torch.tensor([1.0, 5.0, 9.0], dtype=torch.float64)
    assert x.clamp(2, torch.tensor(6)).tolist() == [2, 5, 6]
    assert x.clone().clamp_(torch.tensor(4.0), 8).tolist() == [4, 5, 8]
    assert x.clone().copy_(0.1).tolist() == [0.1, 0.1, 0.1]
    assert torch.zeros(2, dtype=torch.bool).copy_(True).tolist() == [True, True]


def test_similarity_of_different_dtypes():
    x = torch.ones(2, 3)
    similar = F.cosine_similarity(x.double(), x)
    assert similar.dtype is torch.float64
    assert (similar - 1).abs().max() < 1e-6


@pytest.mark.parametrize("name", ["norm", "eigvalsh", "cholesky", "matrix_exp", "matrix_norm", "cond", "eigvals"])
def test_the_first_argument_by_name(name):
    function = getattr(torch.linalg, name)
    matrix = torch.tensor([[2.0, 0.0], [0.0, 3.0]])
    assert torch.equal(function(input=matrix), function(matrix))

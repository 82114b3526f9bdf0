"""Views, indexing and assignment replayed: shapes, strides, offsets, node names, values and words that PyTorch gave.

`views_recorded.json` holds pairs of an expression and its outcome. To record again (under PyTorch):
FLAMBEAU_TEST_IMPL=torch python tests/core/test_views_and_indexing.py
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from implementation import torch

FILE = Path(__file__).parent / "views_recorded.json"
RECORDED = json.loads(FILE.read_text())


def view_names():
    x = torch.zeros(2, 3, 4, requires_grad=True)
    return {
        "torch": torch,
        "x": x,
        "z": torch.zeros((), requires_grad=True),
        "v": torch.zeros(3, requires_grad=True),
        "i": torch.zeros(2, 3, dtype=torch.int64),
        "tr": x.detach().transpose(0, 2).requires_grad_(),
        "c": torch.zeros(2, 3, dtype=torch.complex64, requires_grad=True),
    }


def index_names():
    return {
        "torch": torch,
        "np": np,
        "x": torch.arange(24.0).view(2, 3, 4),
        "v": torch.arange(3.0),
        "z": torch.tensor(5.0),
        "m": torch.ones(2, 3, dtype=torch.bool),
        "i": torch.tensor([0, 1]),
    }


def described(result):
    if isinstance(result, torch.Tensor):
        node = None if result.grad_fn is None else result.grad_fn.name()
        return [list(result.shape), list(result.stride()), result.storage_offset(), node]
    return [type(result).__name__, *map(described, result)]


def replay_view(expression):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return described(eval(expression, view_names()))
        except Exception as error:
            return [type(error).__name__, str(error).split("\n")[0]]


def replay_index(statement):
    names = index_names()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if " = " in statement:
                exec(statement, names)
                result = names["x"]
            else:
                result = eval(statement, names)
        except Exception as error:
            return [type(error).__name__, str(error).split("\n")[0]]
    return [list(result.shape), result.flatten().tolist()]


@pytest.mark.parametrize("expression", RECORDED["views"])
def test_view(expression):
    assert replay_view(expression) == RECORDED["views"][expression]


@pytest.mark.parametrize("statement", RECORDED["indexing"])
def test_index(statement):
    assert replay_index(statement) == RECORDED["indexing"][statement]


if __name__ == "__main__":
    FILE.write_text(
        json.dumps(
            {
                "views": {expression: replay_view(expression) for expression in RECORDED["views"]},
                "indexing": {statement: replay_index(statement) for statement in RECORDED["indexing"]},
            },
            indent=0,
        )
        + "\n"
    )


def test_arrays_share_memory_whatever_their_strides():
    row = torch.arange(6.0)
    assert row[2:].numpy().tolist() == [2, 3, 4, 5] == row[2:].tolist() and row[::2].numpy().strides == (8,)
    thin = row.as_strided((1, 3), (7, 1))
    assert thin.numpy().strides == (28, 4) and thin.tolist() == [[0, 1, 2]]
    assert row[0].numpy().shape == () and row[:0].numpy().shape == (0,) and row.bfloat16().tolist() == row.tolist()
    array = row[1:].numpy()
    array[0] = 9
    del row
    assert array.tolist() == [9, 2, 3, 4, 5] and torch.from_numpy(array[::2])[0] == 9
    seen = torch.from_numpy(array)
    array[1] = -1
    assert seen[1] == -1 and torch.from_numpy(array[:0]).shape == (0,)
    with pytest.raises(ValueError, match="At least one stride in the given numpy array is negative"):
        torch.from_numpy(array[::-1])
    assert bytes(memoryview(seen.untyped_storage()))[:4] == array[:1].tobytes()
    with pytest.raises(RuntimeError, match="Tensor on device meta is not on the expected device cpu"):
        np.frombuffer(torch.empty(3, device="meta").untyped_storage(), np.float32, 3)


@pytest.mark.parametrize(
    "data, dtype, shape",
    [
        ([1.5, 2], torch.float32, (2,)),
        ([[1, 2], [3, 4]], torch.int64, (2, 2)),
        (((1, 2), (3.0, 4)), torch.float32, (2, 2)),
        ([True, False], torch.bool, (2,)),
        ([[[1], [2]]], torch.int64, (1, 2, 1)),
        ([-(2**63)], torch.int64, (1,)),
    ],
)
def test_tensors_of_nested_numbers(data, dtype, shape):
    made = torch.tensor(data)
    assert made.dtype is dtype and made.shape == shape and made.tolist() == np.array(data).tolist()
    for wanted in (torch.float32, torch.float64, torch.int64, torch.int32, torch.float16, torch.bool):
        if wanted is not torch.int32 or abs(made.flatten()[0].item()) < 9:
            assert torch.tensor(data, dtype=wanted).equal(made.to(wanted))


def test_tensors_of_numbers_that_do_not_fit():
    assert torch.tensor([1e300, 1.0]).tolist() == [float("inf"), 1.0] and torch.tensor([0, 2], dtype=torch.bool).all() == 0
    assert torch.tensor([1.7, -1.7], dtype=torch.int64).tolist() == [1, -1]
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        torch.tensor([2**63])
    with pytest.raises(ValueError, match="expected sequence of length 1 at dim 1"):
        torch.tensor([[1], [2, 3]])


def test_an_index_of_a_known_kind_begins_anywhere():
    """Views are remembered by the kind of their index, so each is asked for again with other ints and slices."""
    values = np.arange(4 * 5 * 6).reshape(4, 5, 6)
    for array in (values, values[:, ::2], values.transpose(2, 0, 1), values[1:, 1:, 1:]):
        x = torch.from_numpy(array)
        for seed in range(40):
            i, j, start, length = (int(n) for n in np.random.default_rng(seed).integers(0, 3, 4))
            piece, rest, thin = slice(start, start + length), slice(start, None), slice(start, start + 4, 2)
            none, more = slice(start + 1, start), slice(start, start + 9)
            for index in (
                i,
                -1 - i,
                (i, j),
                (i, -1 - j),
                (slice(None), j),
                (Ellipsis, -1 - i),
                (i, None, j),
                piece,
                (piece, j),
                (j, piece),
                more,
                rest,
                (thin, i),
                (none, j),
                (None, i, Ellipsis, piece),
            ):
                got = x[index]
                assert got.shape == array[index].shape and np.array_equal(got.numpy(), array[index])
                one, other = array.copy(), torch.tensor(array)
                one[index], other[index] = -seed, -seed
                assert np.array_equal(other.numpy(), one)
        for index in (array.shape[0], -array.shape[0] - 1, (0, array.shape[1]), (Ellipsis, array.shape[2])):
            with pytest.raises(IndexError, match="out of bounds"):
                x[index]
            with pytest.raises(IndexError, match="out of bounds"):
                x[index] = 0


@pytest.mark.parametrize(
    ("index", "place"), [((..., 7), 1), ((slice(None), ..., 7), 2), ((None, ..., 7), 2), ((0, 7), 1), ((None, 8), 1)]
)
def test_an_index_out_of_bounds_is_named_by_its_place(index, place):
    with pytest.raises(IndexError, match=f"is out of bounds for dimension {place} with size"):
        torch.zeros(3, 4, 5)[index]


def test_index_select_names_the_bad_index():
    with pytest.raises(RuntimeError, match="INDICES element is out of DATA bounds, id=-4 axis_dim=3"):
        torch.zeros(2, 3).index_select(1, torch.tensor([1, -4, 9]))
    with pytest.raises(IndexError, match="index out of range in self"):
        torch.zeros(2, 3).index_select(0, torch.tensor([9]))

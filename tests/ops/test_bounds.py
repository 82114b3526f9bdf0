"""Where operators read and write: indices, offsets, sizes and numbers that don't fit, and indices that change meanwhile."""

import copy
import subprocess
import sys

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.gather_scatter.move import Buffer, Index, Move
from flambeau.ops.indexing.gather_plans import make_plan

F = torch.nn.functional
int64 = torch.int64


def positions(*values):
    return torch.tensor(values, dtype=int64)


# ---------------------------------------------------------------- numbers that are handed to kernels


@pytest.mark.parametrize(
    ("dtype", "alpha", "expected"),
    [
        (torch.int64, 1.5, 1),
        (torch.int32, 2.7, 2),
        (torch.int8, 2.0, 2),
        (torch.uint8, 1.5, 1),
        (torch.bool, 2.0, True),
        (torch.bool, 1j, True),
        (torch.float64, 0.1, 0.1),
        (torch.complex64, 1j, 1j),
    ],
)
def test_the_factor_of_index_add_is_a_number_of_its_dtype(dtype, alpha, expected):
    made = torch.zeros(4, dtype=dtype).index_add(0, positions(1), torch.ones(1, dtype=dtype), alpha=alpha)
    assert made.dtype is dtype and made.tolist() == [0, expected, 0, 0]
    given = torch.zeros(4, dtype=dtype)
    assert given.index_add_(0, positions(1), torch.ones(1, dtype=dtype), alpha=alpha).tolist() == [0, expected, 0, 0]


@pytest.mark.parametrize(
    ("dtype", "alpha"), [(torch.float32, 1j), (torch.int64, 1e30), (torch.uint8, 300), (torch.int8, float("nan"))]
)
def test_a_factor_of_index_add_that_does_not_fit_is_refused(dtype, alpha):
    with pytest.raises(RuntimeError, match=r"value cannot be converted to type .* without overflow"):
        torch.zeros(4, dtype=dtype).index_add(0, positions(1), torch.ones(1, dtype=dtype), alpha=alpha)


def test_numbers_written_to_float64_are_not_rounded():
    zeros = torch.zeros(3, dtype=torch.float64)
    assert zeros.index_fill(0, positions(1), 0.1)[1].item() == 0.1
    assert zeros.scatter(0, positions(1), 0.1)[1].item() == 0.1
    assert F.pad(zeros, (1, 0), value=0.1)[0].item() == 0.1
    assert zeros.clone().index_fill_(0, positions(1), 0.1)[1].item() == 0.1
    assert torch.zeros(3, dtype=int64).index_fill(0, positions(1), 2**53 + 1)[1].item() == 2**53 + 1


# ---------------------------------------------------------------- numbers as rows of one element


@pytest.mark.parametrize("value", [2.0, torch.tensor(2.0)])
def test_index_fill_of_a_number(value):
    assert torch.tensor(5.0).index_fill(0, positions(0, 0), value).item() == 2
    assert torch.tensor(5.0).index_fill(0, positions(), value).item() == 5
    assert torch.tensor(5.0).index_fill_(0, torch.zeros(100_000, dtype=int64), value).item() == 2


def test_index_copy_to_a_number_takes_the_last_of_several_sources():
    assert torch.tensor(5.0).index_copy(0, positions(0, 0), torch.tensor([2.0, 3.0])).item() == 3
    assert torch.tensor(5.0).index_copy(0, positions(0, 0), torch.tensor([2.0, 9.0, 3.0])[::2]).item() == 3


@pytest.mark.parametrize(
    ("name", "index", "source", "error"),
    [
        ("index_add", positions(0, 0), torch.tensor([2.0, 3.0]), RuntimeError),
        ("index_add", positions(0), torch.tensor([3.0]), RuntimeError),
        ("index_add", positions(0, 0), torch.tensor(3.0), IndexError),
        ("index_reduce", positions(0, 0), torch.tensor([3.0]), RuntimeError),
        ("index_reduce", positions(0, 0), torch.tensor(3.0), IndexError),
        ("index_copy", positions(0), torch.tensor([[3.0]]), RuntimeError),
        ("index_copy", positions(0, 0), torch.tensor(3.0), IndexError),
        ("index_copy", positions(), torch.tensor(3.0), IndexError),
    ],
)
def test_sources_that_do_not_fit_a_number(name, index, source, error):
    more = ("prod",) if name == "index_reduce" else ()
    with pytest.raises(error):
        getattr(torch.tensor(5.0), name)(0, index, source, *more)


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reduce_wants_as_many_indices_as_slices(reduce):
    for source in (torch.ones(1), torch.ones(0), torch.ones(4)):
        with pytest.raises(RuntimeError, match="Number of indices"):
            torch.ones(3).index_reduce(0, positions(0, 1), source, reduce)


# ---------------------------------------------------------------- one check in front of what kernels touch


def test_a_move_that_would_leave_its_operands_is_refused_whatever_an_operator_forgot():
    x, index = torch.ones(4), positions(0, 1)
    layout, chosen = x._layout, index._layout
    inside = Index(Buffer(2, 0, (1,)), "i64", 1, 4)
    make_plan([Move(layout.dtype, (2,), Buffer(1, 0, (0,)), Buffer(0, 2, (1,)), (inside,))], [layout], [layout, chosen])
    for move in (
        Move(layout.dtype, (2,), Buffer(1, 0, (0,)), Buffer(0, 3, (1,)), (inside,)),
        Move(layout.dtype, (2,), Buffer(1, 1, (0,)), Buffer(0, 0, (1,)), (inside,)),
        Move(layout.dtype, (3,), Buffer(1, 0, (0,)), Buffer(0, 0, (1,)), (inside,)),
        Move(layout.dtype, (2,), Buffer(1, 0, (-1,)), Buffer(0, 0, (1,))),
    ):
        with pytest.raises(RuntimeError, match="sizes of the operands don't fit"):
            make_plan([move], [layout], [layout, chosen])


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
    ],
)
def test_item_reads_nothing_outside_its_storage(dtype):
    whole = torch.ones(1000, dtype=dtype)
    last = whole[999]
    assert last.item() == 1
    last._storage = torch.ones(1, dtype=dtype)._storage  # as a slip elsewhere would leave it
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        last.item()


def test_tensors_without_elements_may_begin_anywhere():
    x = torch.ones(5).as_strided((0, 5), (1, 1), 2**62 + 2**61)
    assert x.sum(0).tolist() == [0] * 5 and (x @ torch.ones(5, 3)).shape == (0, 3)


def test_deep_copies_of_tensors_that_begin_at_one_address():
    array = np.arange(1000, dtype=np.float32)
    small, big = copy.deepcopy([torch.from_numpy(array[:1]), torch.from_numpy(array)])
    assert small.tolist() == [0] and big[999].item() == 999 and big.sum().item() == 499500
    values = torch.arange(1000.0)
    part = torch.empty(0).set_(values.untyped_storage()[0:4])
    part, whole = copy.deepcopy([part, values])
    assert part.tolist() == [0] and whole[-1].item() == 999
    x = torch.ones(3)
    pair = copy.deepcopy([x, x.data, x[1:]])
    pair[0].fill_(7)
    assert pair[1].tolist() == [7] * 3 and pair[2].tolist() == [7] * 2


@pytest.mark.parametrize("name", ["shape", "strides", "dtype", "size"])
@pytest.mark.parametrize("function", [torch.from_numpy, torch.as_tensor, torch.tensor])
def test_what_a_subclass_of_an_array_says_of_itself_is_not_believed(name, function):
    lie = {"shape": (10**7,), "strides": (4 * 10**6,), "dtype": np.dtype("float64"), "size": 0}[name]
    kind = type("Array", (np.ndarray,), {name: property(lambda self: lie)})
    assert function(np.ones(4, np.float32).view(kind)).tolist() == [1] * 4


@pytest.mark.parametrize(("size", "stride"), [((-5,), (1,)), ((2, -1), (1, 1)), ((2**62, 4), (0, 0))])
def test_set_refuses_sizes_that_are_none(size, stride):
    x = torch.ones(5)
    with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
        x.set_(x.untyped_storage(), 0, size, stride)
    assert x.shape == (5,)


# ---------------------------------------------------------------- indices that another thread changes


RACE = """
import sys, threading, time
import numpy as np
import {package} as torch
F = torch.nn.functional
numbers = np.zeros(200_000, np.int64)
index, weight, scores = torch.from_numpy(numbers), torch.ones(4, 64), torch.ones(200, 1000)
def spoil():
    while True:
        numbers[-1000:] = 10**12
        numbers[-1000:] = 0
sys.setswitchinterval(1e-6)
threading.Thread(target=spoil, daemon=True).start()
call = {call}
end = time.time() + 0.7
while time.time() < end:
    try:
        call()
    except RuntimeError:
        pass
"""


@pytest.mark.parametrize(
    "call",
    [
        "lambda: F.embedding_bag(index, weight, torch.tensor([0, 5]), mode='sum')",
        "lambda: F.multilabel_margin_loss(scores, index.view(200, 1000))",
    ],
)
def test_an_index_is_read_once(call):
    program = RACE.format(package=torch.__name__, call=call)
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, answer.stderr[-2000:]


def test_numbers_beside_float64_are_not_rounded():
    edges = torch.tensor([0.1, 0.2], dtype=torch.float64)
    assert torch.searchsorted(edges, 0.1).item() == torch.bucketize(0.1, edges).item() == 0
    assert torch.isin(edges, 0.1).tolist() == [True, False] and torch.isin(0.1, edges).item() is True
    assert torch.searchsorted(torch.tensor([1, 2], dtype=torch.uint8), 300).item() == 2
    assert torch.isin(torch.tensor([1, 2]), 1.5).tolist() == [False, False]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_numbers_are_multiplied_into_their_places(dtype):
    x, index = torch.tensor([1 + 2j, 3 - 1j, 2j], dtype=dtype), positions(0, 0, 2)
    assert torch.ones(3, dtype=dtype).scatter_reduce(0, index, x, "prod").tolist() == [5 + 5j, 1, 2j]
    assert x.scatter(0, positions(0), 2j, reduce="multiply").tolist() == [-4 + 2j, 3 - 1j, 2j]

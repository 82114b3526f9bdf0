"""Tensors of nested data, arrays, buffers, storages and other libraries' objects: values, dtypes, shared memory, refusals.

Under PyTorch as well, from which the words are.
"""

import array
import warnings

import numpy as np
import pytest
from implementation import torch


class Sequence:
    """A sequence that is no list."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        if index >= 3:
            raise IndexError
        return index * 1.5


class Index:
    def __index__(self):
        return 5


class Lender:
    """An object of another library that lends its memory."""

    def __init__(self, held):
        self.held = held

    def __dlpack__(self, *args, **kwargs):
        return self.held.__dlpack__(*args, **kwargs)

    def __dlpack_device__(self):
        return self.held.__dlpack_device__()


def self_containing():
    held = []
    held.append(held)
    return held


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        ([[1, 2], [3, 4.5]], {}, [[1, 2], [3, 4.5]]),
        (Sequence(), {}, [0.0, 1.5, 3.0]),
        ([Index(), 1], {"dtype": torch.float32}, [5, 1]),
        ([Index(), 2.9], {"dtype": torch.int64}, [5, 2]),
        ([torch.tensor([3]), 1], {"dtype": torch.int8}, [3, 1]),
        ([torch.ones(1), torch.ones(1, 1)], {}, [1, 1]),
        ([[1, 2], torch.ones(2)], {}, [[1, 2], [1, 1]]),
        ([2**60 + 1, 1.5], {"dtype": torch.int64}, [2**60 + 1, 1]),
        ([float("nan"), 0.0, 1j], {"dtype": torch.bool}, [True, False, True]),
        ([[], [1, 2]], {}, [[], []]),
    ],
)
def test_values_of_nested_data(data, options, expected):
    made = torch.tensor(data, **options)
    assert made.tolist() == expected
    assert made.dtype is options.get("dtype", torch.float32)


def test_integers_of_every_width():
    assert torch.tensor([1, 2**64 - 1, 2**63], dtype=torch.uint64).tolist() == [1, 2**64 - 1, 2**63]
    assert torch.full((1,), 2**64 - 1, dtype=torch.uint64).item() == 2**64 - 1
    assert torch.tensor([-300, 7], dtype=torch.uint16).tolist() == [65236, 7]
    assert torch.tensor([2**53 + 1, 1.5], dtype=torch.int64).tolist() == [2**53 + 1, 1]


@pytest.mark.parametrize(
    ("data", "dtype", "error", "words"),
    [
        ([[1, 2], [3]], None, ValueError, "expected sequence of length 2 at dim 1 (got 1)"),
        ([1, [2]], None, TypeError, "'list' object cannot be interpreted as an integer"),
        ([1.0, [2]], None, TypeError, "must be real number, not list"),
        ([[1], 2], None, TypeError, "not a sequence"),
        ([None], None, RuntimeError, "Could not infer dtype of NoneType"),
        ([None], torch.float32, TypeError, "must be real number, not NoneType"),
        ([b"a"], None, TypeError, "new(): invalid data type 'bytes'"),
        (["a"], None, ValueError, "too many dimensions 'str'"),
        (self_containing(), None, ValueError, "too many dimensions 'list'"),
        ([1j], torch.float32, TypeError, "must be real number, not complex"),
        ([float("inf")], torch.int64, RuntimeError, "value cannot be converted to type int64 without overflow"),
        ([1e19], torch.int64, RuntimeError, "value cannot be converted to type int64 without overflow"),
        ([1, 2**64 - 1], None, ValueError, "Overflow when unpacking long long"),
        ([-1, 2**63], torch.int32, ValueError, "Overflow when unpacking long long"),
        ([300], torch.int8, RuntimeError, "value cannot be converted to type int8 without overflow"),
        ([-65536], torch.uint16, RuntimeError, "value cannot be converted to type uint16 without overflow"),
        ([-0.5], torch.uint8, RuntimeError, "value cannot be converted to type uint8 without overflow"),
        ([1.5], torch.uint64, TypeError, "an integer is required"),
        ([-1], torch.uint64, OverflowError, "can't convert negative int to unsigned"),
        ([2**64], torch.uint64, OverflowError, "int too big to convert"),
        ([np.float32(1.5)], torch.int64, TypeError, "'numpy.float32' object cannot be interpreted as an integer"),
        (np.uint64(2**64 - 1), torch.int64, ValueError, "Overflow when unpacking long long"),
        ([2**70], None, ValueError, "Overflow when unpacking long long"),
        ([torch.ones(2)], None, ValueError, "only one element tensors can be converted to Python scalars"),
        ([torch.ones(1)], torch.int64, TypeError, "only integer tensors of a single element can be converted to an index"),
        ([1, np.array([2])], None, TypeError, "only integer scalar arrays can be converted to a scalar index"),
        (Index(), None, RuntimeError, "Could not infer dtype of Index"),
        (np.arange(3)[::-1], None, ValueError, "At least one stride in the given numpy array is negative"),
        (np.arange(3, dtype=">i4"), None, ValueError, "given numpy array has byte order different from the native byte order"),
    ],
    ids=lambda value: None if isinstance(value, type) else str(value)[:30],
)
def test_what_nested_data_is_refused(data, dtype, error, words):
    with pytest.raises(error) as caught:
        torch.tensor(data, dtype=dtype)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor, torch.asarray])
def test_storages_lend_their_memory(make):
    held = torch.UntypedStorage(10).fill_(1)
    for dtype, length, value in (
        (torch.uint8, 10, 1),
        (torch.int16, 5, 257),
        (torch.int32, 2, 16843009),
        (None, 1, 0x0101010101010101),
    ):
        made = make(held, dtype=dtype)
        assert made.tolist() == [value] * length
        assert made.data_ptr() == held.data_ptr()
    make(held, dtype=torch.uint8)[0] = 9
    assert held[0] == 9
    assert make(held[4:8], dtype=torch.int32).tolist() == [16843009]
    typed = torch.FloatStorage([1, 2, 3])
    assert make(typed).tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="Expected a Storage of type Double or an UntypedStorage, but got Float"):
        make(typed, dtype=torch.float64)


def test_asarray_shares_buffers_as_elements():
    given = bytearray(b"abcd1234")
    assert torch.asarray(given).dtype is torch.float32
    made = torch.asarray(given, dtype=torch.int16)
    assert made.tolist() == [25185, 25699, 12849, 13363]
    made[0] = 0
    assert given[:2] == b"\0\0"
    copied = torch.asarray(given, dtype=torch.int16, copy=True)
    copied[1] = 0
    assert given[2:4] == b"cd"
    assert torch.asarray(array.array("d", [1, 2]), dtype=torch.float64).tolist() == [1, 2]
    assert torch.asarray(memoryview(np.arange(6.0).reshape(2, 3)), dtype=torch.float64).tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match=r"buffer length \(7 bytes\) after offset \(0 bytes\) must be a multiple of"):
        torch.asarray(bytearray(7))
    with pytest.raises(RuntimeError, match="could not retrieve buffer from object"):
        torch.frombuffer(np.arange(6).reshape(2, 3).T, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"object does not implement Python buffer protocol\."):
        torch.frombuffer("abc", dtype=torch.int8)


def test_asarray_copies_only_if_it_must_or_may():
    source = np.arange(3.0)
    assert torch.asarray(source).data_ptr() == source.ctypes.data
    assert torch.asarray(source, copy=True).data_ptr() != source.ctypes.data
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Double' into dtype 'Long'"):
        torch.asarray(source, dtype=torch.int64, copy=False)
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor"):
        torch.asarray([1, 2], copy=False)
    leaf = torch.arange(3.0)
    assert torch.asarray(leaf, requires_grad=True) is leaf
    assert leaf.requires_grad
    inner = leaf * 2
    assert torch.asarray(inner, requires_grad=True) is inner
    assert torch.asarray(inner, requires_grad=False).grad_fn is None
    assert torch.asarray(inner, dtype=torch.float64, requires_grad=True).grad_fn is not None


def test_objects_of_other_libraries():
    held = torch.arange(3)
    assert torch.tensor(Lender(held)).data_ptr() != held.data_ptr()
    for make in (torch.as_tensor, torch.asarray):
        assert make(Lender(held)).data_ptr() == held.data_ptr()
    assert torch.as_tensor(Lender(held), dtype=torch.float64).tolist() == [0, 1, 2]


def test_storages_without_memory_have_a_size_and_no_address():
    made = torch.empty(3, 4, device="meta")
    held = made.untyped_storage()
    assert (held.nbytes(), held.size(), held.data_ptr(), made.data_ptr()) == (48, 48, 0, 0)
    view = made[1:]
    assert (view.data_ptr(), view.untyped_storage().data_ptr(), view.storage_offset()) == (16, 0, 4)
    assert torch.empty(1, device="meta").expand(5).untyped_storage().nbytes() == 4
    assert torch.empty_strided((2, 3), (10, 1), device="meta").untyped_storage().nbytes() == 52
    assert made.as_strided((2, 2), (4, 1)).shape == (2, 2)
    assert made.data.untyped_storage().nbytes() == 48
    grown = torch.empty(0, device="meta").resize_(1000)
    assert grown.untyped_storage().nbytes() == 4000
    assert len(torch.UntypedStorage(8, device="meta").clone()) == 8
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        held.cpu()
    with pytest.raises(ValueError, match="could not determine the shape of object type"):
        torch.asarray(held)
    assert held._cdata == view.untyped_storage()._cdata != torch.empty(1).untyped_storage()._cdata


def test_warnings_of_memory_that_is_not_to_be_written_to():
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.tensor(fixed)  # a copy


def test_a_number_of_a_tensor_in_a_graph(monkeypatch):
    if torch.__name__ == "flambeau":
        monkeypatch.setattr("flambeau.base.warn._given", set())  # the warning is given once in a process
    leaf = torch.ones(1, requires_grad=True)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        assert (int(leaf), leaf.item(), bool(leaf)) == (1, 1.0, True)
        assert not given
        assert float(leaf) == 1.0
    if torch.__name__ == "flambeau":
        assert [str(warning.message).split(" may lead")[0] for warning in given] == [
            "Converting a tensor with requires_grad=True to a scalar"
        ]
        assert given[0].filename == __file__


def test_copies_on_the_meta_device_are_in_the_graph():
    made = torch.empty(2, 3, device="meta", requires_grad=True)
    for copy in (
        made.clone(),
        made.double(),
        made.t().contiguous(),
        made.to("meta", copy=True),
        torch.ones(2, requires_grad=True).to("meta"),
    ):
        assert copy.requires_grad and not copy.is_leaf
    assert not made.long().requires_grad and not made.detach().clone().requires_grad
    made.half().clone().double().sum().backward()
    assert made.grad.shape == (2, 3) and made.grad.dtype == torch.float32


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (lambda: torch.full((1,), 2**63, dtype=torch.float32), 2.0**63),
        (lambda: torch.full((1,), 2**63, dtype=torch.complex64), 2.0**63),
        (lambda: torch.zeros(1).new_full((1,), 2**64 - 1), 2.0**64),
        (lambda: torch.zeros(1, dtype=torch.uint64).fill_(2**64 - 1), 2**64 - 1),
        (lambda: torch.zeros(1).masked_fill(torch.tensor([True]), 2**63), 2.0**63),
        (lambda: torch.zeros(1, dtype=torch.bool).fill_(1j), True),
        (lambda: torch.full((1,), 2**63, dtype=torch.bool), True),
        (lambda: torch.zeros(1, dtype=torch.bool).masked_fill(torch.tensor([True]), 1j), True),
    ],
)
def test_numbers_no_kernel_takes_are_elements(fill, expected):
    assert fill().item() == expected


@pytest.mark.parametrize(
    ("fill", "error", "words"),
    [
        (lambda: torch.full((1,), 2**63), RuntimeError, "value cannot be converted to type int64_t without overflow"),
        (lambda: torch.full((1,), 2**64, dtype=torch.complex64), OverflowError, "int too big to convert"),
        (lambda: torch.zeros(1).fill_(2**64), OverflowError, "int too big to convert"),
        (lambda: torch.zeros(1).fill_(-(2**63) - 1), OverflowError, "can't convert negative int to unsigned"),
    ],
)
def test_ints_past_every_dtype_are_refused(fill, error, words):
    with pytest.raises(error, match=words):
        fill()

"""Storages of bytes and of one dtype: elements, sizes that change in place, files and buffers that they are made from."""

import copy
import threading
import warnings
import weakref

import numpy as np
import pytest

import flambeau as torch
from flambeau.storage import _dtype_to_storage_type_map, _get_dtype_from_pickle_storage_type, _LegacyStorage

DTYPES = list(_dtype_to_storage_type_map())
QUANTIZED = {torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4}


@pytest.fixture(autouse=True)
def deprecated():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TypedStorage is deprecated")
        yield


# ---------------------------------------------------------------- sizes that change


def test_a_storage_grows_with_all_tensors_on_it():
    x = torch.arange(6.0)
    view, detached = x[2:], x.detach()
    x.resize_(1000)
    x[6:] = 0
    view.add_(1)
    assert x[:8].tolist() == [0, 1, 3, 4, 5, 6, 0, 0] and detached.tolist() == [0, 1, 3, 4, 5, 6]
    assert detached.data_ptr() == x.data_ptr() == view.data_ptr() - 8
    out, base = torch.zeros(4)[:0], torch.empty(0)
    torch.add(torch.ones(4), 1, out=out)
    assert out.tolist() == [2, 2, 2, 2] and base.shape == (0,)
    held = torch.arange(4.0).untyped_storage()
    assert held.resize_(40) is held and held.nbytes() == 40 and held.resize_(8).tolist() == [0, 0, 0, 0, 0, 0, 128, 63]
    assert torch.tensor([]).set_(held, 0, (3,)).shape == (3,) and held.nbytes() == 12


READERS = [
    lambda x: x[3].item(), lambda x: x.tolist(), lambda x: x.numpy(), repr, lambda x: x + 1, lambda x: x[2:].sum(),
    lambda x: x.view(torch.uint8).tolist(), lambda x: x.half(), lambda x: x.sort(), lambda x: x.fill_(3),
    lambda x: x.copy_(torch.ones(4)), lambda x: x.random_(), lambda x: x.__setitem__(3, 1.0), lambda x: x.__dlpack__(),
    lambda x: x[1::2].tolist(), lambda x: repr(x[1::2]),
    lambda x: torch.linalg.norm(x), lambda x: x.view(2, 2) @ x.view(2, 2), lambda x: torch.ones(4).copy_(x), lambda x: x.unique(),
    lambda x: float(x[3]), lambda x: x.data[3].item(), lambda x: bool(x[3]), lambda x: torch.fft.fft(x),
]  # fmt: skip


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("left", [0, 4, 12])
def test_what_reaches_outside_a_storage_cannot_be_read(read, left):
    x = torch.arange(4.0)
    x.untyped_storage().resize_(left)
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        read(x)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.bool,
        torch.float16,
        torch.float64,
        torch.bfloat16,
        torch.complex64,
    ],
)
def test_single_numbers_outside_a_storage(dtype):
    x = torch.ones(4, dtype=dtype)
    x.untyped_storage().resize_(3 * dtype.itemsize)
    assert x[2].item() == 1
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        x[3].item()


@pytest.mark.parametrize(
    "show",
    [lambda x: x.numpy(), lambda x: x[::2].numpy(), lambda x: np.from_dlpack(x), lambda x: memoryview(x.untyped_storage())],
)
def test_memory_that_an_array_shows_stays_where_it_is(show):
    x = torch.arange(4.0)
    array = show(x)
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        x.resize_(1000)
    assert not x.untyped_storage().resizable() and len(array) > 1
    y = torch.arange(4.0)
    assert repr(y) and y.tolist() and y.untyped_storage().resizable() and y.resize_(1000).shape == (1000,)
    with pytest.raises(RuntimeError, match="not resizable"):
        torch.from_numpy(np.ones(3)).untyped_storage().resize_(1000)


def test_an_alias_keeps_the_memory_it_was_made_on():
    x = torch.arange(4.0)
    alias, part = x.data, x.untyped_storage()[4:8]
    x.resize_(100_000)
    x.fill_(9)
    junk = [torch.full((4,), 5.0) for _ in range(100)]
    assert alias.tolist() == [0, 1, 2, 3] and part.tolist() == [0, 0, 128, 63] and len(junk) == 100
    y = torch.arange(4.0)
    y.data.fill_(7)
    assert y.tolist() == [7, 7, 7, 7] and y.untyped_storage()._cdata == y.data.untyped_storage()._cdata


def test_kernels_in_other_threads_keep_the_memory_they_began_with():
    x = torch.ones(300_000)
    stop = threading.Event()
    wrong = []

    def compute():
        while not stop.is_set():
            try:
                total = x[:100_000].exp().log().sum().item()
            except RuntimeError:  # the storage was too small just then
                continue
            if not 99_000 < total < 101_000:
                wrong.append(total)

    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    held = x.untyped_storage()
    for size in [1_200_000, 900_000, 4_000_000, 400_000] * 25:
        held.resize_(size)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_number_whose_conversion_changes_the_storage():
    x = torch.ones(1000)

    class Shrinks:
        def __float__(self):
            x.untyped_storage().resize_(4)
            return 2.0

        __index__ = None

    with pytest.raises((RuntimeError, TypeError)):
        x.add_(1, alpha=Shrinks())
        x.tolist()


def test_storages_can_be_referred_to_weakly():
    x = torch.ones(3)
    held = x.untyped_storage()
    gone = []
    reference = weakref.ref(held, gone.append)
    number = held._weak_ref()
    assert reference() is held and not held._expired(number)
    del held
    assert reference() is not None and not gone
    del x
    assert reference() is None and gone == [reference] and torch.UntypedStorage._expired(number)


# ---------------------------------------------------------------- making and changing


def test_set_takes_storages():
    x = torch.arange(6.0)
    assert torch.tensor([]).set_(x.storage()).tolist() == x.tolist()
    assert torch.tensor([]).set_(x.storage(), 1, (2, 2), (1, 2)).tolist() == [[1, 3], [2, 4]]
    assert torch.tensor([]).set_(source=x.untyped_storage(), storage_offset=4, size=(2,)).data_ptr() == x[4:].data_ptr()
    assert torch.tensor([]).set_(x, 2, (2,), (1,)).tolist() == [2, 3]
    meta = torch.empty(3, device="meta")
    assert torch.tensor([], device="meta").set_(meta.storage()).shape == (3,)
    for arguments, error, words in [
        ((x.double().storage(),), RuntimeError, "Expected a Storage of type float or an UntypedStorage, but got type Double"),
        ((meta.storage(),), RuntimeError, 'Attempted to set the storage of a tensor on device "cpu" to a storage on different'),
        ((x.storage(), -1, (1,)), RuntimeError, "Tensor: invalid storage offset -1"),
        ((x.storage(), 0, (-5,), (1,)), RuntimeError, "numel: integer multiplication overflow"),
        ((x.storage(), 0, (2,), (-1,)), RuntimeError, "Storage size calculation overflowed"),
        ((x.storage(), 0, (2,), (2**62,)), RuntimeError, "Storage size calculation overflowed"),
        ((x.storage(), 0, (2,), (1, 1)), RuntimeError, "unequal size length"),
        ((x.storage(), 0), TypeError, "invalid combination of arguments"),
        ((5,), TypeError, "invalid combination of arguments"),
    ]:
        tensor = torch.ones(2)
        with pytest.raises(error, match=words):
            tensor.set_(*arguments)
        assert tensor.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_storages_of_a_dtype(dtype):
    name = _dtype_to_storage_type_map()[dtype]
    kind = getattr(torch, name)
    held = kind([0, 1, 1])
    assert held.tolist() == [0, 1, 1] and held.dtype is kind.dtype is dtype and held.type() == f"torch.{name}"
    assert isinstance(held, kind) and type(held) is torch.TypedStorage
    assert held.nbytes() == 3 * dtype.itemsize and _get_dtype_from_pickle_storage_type(name) is dtype
    held[0] = 1
    held[1:] = 0
    assert held[0] == 1 and held[-1] == 0
    if dtype not in QUANTIZED:  # whose tensors take no storage
        assert torch.tensor([], dtype=dtype).set_(held).tolist() == [1, 0, 0]
    held.resize_(2)
    assert len(held.fill_(1)) == 2 and copy.deepcopy(held).tolist() == [1, 1]
    if dtype not in QUANTIZED:
        assert held.float().tolist() == [1, 1]


def test_constructors_say_what_they_take():
    held = torch.UntypedStorage(4)
    for make, error, words in [
        (lambda: torch.FloatStorage(2, 3), RuntimeError, "Too many positional arguments"),
        (lambda: torch.FloatStorage(device="cpu"), RuntimeError, "Keyword argument 'device' cannot be specified"),
        (lambda: torch.FloatStorage(2.5), TypeError, "Argument type not recognized: <class 'float'>"),
        (lambda: torch.FloatStorage("ab"), TypeError, "invalid data type 'str'"),
        (lambda: torch.FloatStorage(0, wrap_storage=held), RuntimeError, "No positional arguments should be given"),
        (lambda: torch.TypedStorage(wrap_storage=held), RuntimeError, "Argument 'dtype' must be specified"),
        (lambda: torch.TypedStorage(wrap_storage=held, dtype=0), TypeError, "Argument 'dtype' must be torch.dtype"),
        (lambda: torch.TypedStorage(wrap_storage=5, dtype=torch.int8), TypeError, "but got <class 'int'>"),
        (lambda: torch.TypedStorage(torch.ones(2)), TypeError, "Argument type not recognized"),
        (lambda: torch.TypedStorage(device="xla"), RuntimeError, "Storage device not recognized: xla"),
        (lambda: torch.FloatStorage(-3), RuntimeError, "negative number: 18446744073709551604"),
        (lambda: torch.UntypedStorage(3, 4), TypeError, "invalid combination of arguments - got \\(int, int\\)"),
        (lambda: torch.UntypedStorage(2.5), RuntimeError, "Expected a sequence type, but got float"),
        (lambda: torch.UntypedStorage("ab"), RuntimeError, "one of the items was of type str instead of int"),
        (lambda: _LegacyStorage(), RuntimeError, "Only child classes of _LegacyStorage can be instantiated"),
        (lambda: torch.FloatStorage(1).fill_(torch.FloatStorage(1)), RuntimeError, "cannot set item with value type"),
        (lambda: torch.FloatStorage(1)[0:1], RuntimeError, "slices are only supported in UntypedStorage.__getitem__"),
        (lambda: torch.UntypedStorage(4).__setitem__(-1, 5), RuntimeError, "out of bounds"),
        (lambda: torch.UntypedStorage(4).resize_(2.5), RuntimeError, "resize_ expects an int, but got float"),
    ]:  # fmt: skip
        with pytest.raises(error, match=words):
            make()
    assert torch.UntypedStorage([1, 2, 300]).tolist() == [1, 2, 44] and torch.Storage is torch.FloatStorage


def test_storages_on_meta():
    for held in (
        torch.TypedStorage([1, 2, 3], dtype=torch.int16, device="meta"),
        torch.empty(3, 2, device="meta").storage(),
        torch.UntypedStorage(6, device="meta"),
    ):
        assert held.device.type == "meta" and held.data_ptr() == 0 and len(held) in (3, 6)
        with pytest.raises(NotImplementedError, match="Not available for 'meta' device type"):
            held[0]
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
            held.cpu()
        held.resize_(10)
        assert len(held) == 10


# ---------------------------------------------------------------- buffers and files


def test_buffers():
    given = bytearray([1, 2, 3, 4])
    assert torch.ShortStorage.from_buffer(given, "big").tolist() == [258, 772]
    assert torch.ShortStorage.from_buffer(given, "little").tolist() == [513, 1027]
    assert torch.BoolStorage.from_buffer(bytearray([1, 0, 3]), "big").tolist() == [True, False, True]
    assert torch.ByteStorage.from_buffer(given, count=2, offset=1).tolist() == [2, 3]
    assert torch.TypedStorage.from_buffer(bytes(8), "native").dtype is torch.float32
    for arguments, error, words in [
        ((given,), RuntimeError, "missing required argument 'byte_order'"),
        ((given, "odd"), ValueError, "invalid byte_order 'odd'"),
        ((given, "big", 5), ValueError, "buffer has only 4 elements after offset 0, but specified a size of 5"),
        ((given, "big", -1, 9), ValueError, "offset must be non-negative"),
        ((b"abc", "big"), ValueError, "multiple of element size"),
        (("abc", "big"), TypeError, "a bytes-like object is required"),
    ]:
        with pytest.raises(error, match=words):
            torch.IntStorage.from_buffer(*arguments)


def test_files(tmp_path):
    path = str(tmp_path / "a")
    with pytest.raises(RuntimeError, match=r"unable to open file </.*> in read-only mode: No such file or directory \(2\)"):
        torch.from_file(path, size=4)
    written = torch.from_file(path, shared=True, size=4)
    written.copy_(torch.arange(4.0))
    assert written.untyped_storage().filename == path and (tmp_path / "a").stat().st_size == 16
    read = torch.from_file(path, size=3, dtype=torch.float32)
    read[0] = 9
    assert read.tolist() == [9, 1, 2] and written.tolist() == [0, 1, 2, 3] and read.untyped_storage().filename is None
    assert torch.FloatStorage.from_file(path, False, 2).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="size <16> is smaller than the required mapping size <20>"):
        torch.from_file(path, size=5)
    with pytest.raises(RuntimeError, match="not resizable"):
        written.resize_(100)


def test_storages_come_back_from_files_as_they_were(tmp_path):
    x = torch.arange(4.0)
    torch.save([x.storage(), x], tmp_path / "a")
    for options in ({}, {"weights_only": False}, {"mmap": True}):
        typed, tensor = torch.load(tmp_path / "a", **options)
        typed[0] = 7
        assert isinstance(typed, torch.FloatStorage) and tensor.tolist() == [7, 1, 2, 3]
    typed, tensor = torch.load(tmp_path / "a", map_location="meta")
    assert typed.nbytes() == 16 and tensor.device.type == "meta" and tensor.untyped_storage() is typed.untyped()
    typed, tensor = torch.load(tmp_path / "a", map_location=lambda held, place: torch.FloatStorage([4, 5, 6, 7]))
    assert typed.tolist() == tensor.tolist() == [4, 5, 6, 7]


def test_typed_storages_warn_once():
    import flambeau.storage as rooms

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        rooms._reset_warn_typed_storage_removal()
        torch.ones(3).storage()
        torch.FloatStorage(3).size()
    assert len(said) == 1 and "TypedStorage is deprecated" in str(said[0].message) and said[0].filename == __file__
    rooms._set_always_warn_typed_storage_removal(True)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            len(torch.FloatStorage(3))
        assert len(said) == 2 and rooms._get_always_warn_typed_storage_removal()
    finally:
        rooms._set_always_warn_typed_storage_removal(False)

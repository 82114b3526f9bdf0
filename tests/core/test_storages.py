"""UntypedStorage and TypedStorage: bytes read and written through, copies, slices, files, refusals."""

from __future__ import annotations

import copy
import io
import pickle
import weakref

import pytest

import flambeau as torch
from flambeau.ops.interop import typed_storage


def test_bytes_are_the_tensors_own():
    x = torch.tensor([1.0, 2.0])
    held = x.untyped_storage()
    assert isinstance(held, torch.UntypedStorage) and torch.is_storage(held) and held is x[1:].untyped_storage()
    assert (len(held), held.size(), held.nbytes(), held.element_size()) == (8, 8, 8, 1)
    assert held.tolist() == list(held) == [0, 0, 128, 63, 0, 0, 0, 64] and held[-1] == 64
    held[3] = 64
    assert x.tolist() == [4.0, 2.0]
    held[:4] = 0
    assert x.tolist() == [0.0, 2.0]
    assert held[4:].tolist() == [0, 0, 0, 64]
    held.copy_(torch.tensor([3.0, 4.0]).untyped_storage())
    assert x.tolist() == [3.0, 4.0]
    version = x._version
    held.fill_(0)
    assert x.tolist() == [0.0, 0.0] and x._version > version
    assert repr(torch.UntypedStorage([1, 2])) == " 1\n 2\n[torch.storage.UntypedStorage(device=cpu) of size 2]"


def test_attributes_live_as_long_as_the_storage():
    class Marker:
        pass

    x = torch.ones(3)
    marker = Marker()
    gone = weakref.ref(marker)
    x.untyped_storage().marker = marker
    del marker
    assert x[1:].untyped_storage().marker is gone() and vars(x.untyped_storage()) == {"marker": gone()}
    with pytest.raises(AttributeError):
        x.untyped_storage().other
    del x
    assert gone() is None


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda s: s[8], IndexError, "index 8 out of range for storage of size 8"),
        (lambda s: s[::2], RuntimeError, "Trying to slice with a step of 2, but only a step of 1 is supported"),
        (lambda s: s["a"], TypeError, "can't index a torch.UntypedStorage with str"),
        (lambda s: s.copy_(s[:4]), RuntimeError, "size does not match, self was 8 bytes but src was 4 bytes"),
        (lambda s: torch.UntypedStorage(["a"]), RuntimeError, "one of the items was of type str instead of int"),
        (lambda s: torch.UntypedStorage(-1), RuntimeError, "negative number"),
        (lambda s: s[:4].resize_(0), RuntimeError, "Trying to resize storage that is not resizable"),
        (lambda s: s.pin_memory(), RuntimeError, "Cannot access accelerator device"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call(torch.ones(2).untyped_storage())


def test_copies_and_files():
    x = torch.tensor([1.0, 2.0])
    held = x.untyped_storage()
    file = io.BytesIO()
    torch.save({"storage": held}, file)
    file.seek(0)
    loaded = torch.load(file)
    for made in (held.clone(), copy.copy(held), copy.deepcopy(held), pickle.loads(pickle.dumps(held)), loaded["storage"]):
        assert made.data_ptr() != held.data_ptr() and made.tolist() == held.tolist()
    both = copy.deepcopy([x, held])
    both[1].fill_(0)
    assert both[0].tolist() == [0.0, 0.0] and x.tolist() == [1.0, 2.0]
    big = torch.UntypedStorage.from_buffer(b"\0\0\0\1\0\0\0\2", dtype=torch.int32, byte_order="big")
    assert torch.empty(0, dtype=torch.int32).set_(big).tolist() == [1, 2]


def test_a_storage_over_a_file(tmp_path):
    path = str(tmp_path / "bytes")
    shared = torch.UntypedStorage.from_file(path, shared=True, nbytes=8)
    torch.empty(0).set_(shared).copy_(torch.tensor([1.0, 2.0]))
    private = torch.UntypedStorage.from_file(path, nbytes=8)
    assert private.tolist() == [0, 0, 128, 63, 0, 0, 0, 64]
    private.fill_(0)
    assert shared[3] == 63


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_typed_storages():
    x = torch.tensor([1, 2, 3])
    held = x.storage()
    assert held.tolist() == [1, 2, 3] and held.dtype is torch.int64 and len(held) == 3 and held[-1] == 3
    held[0] = 7
    assert x.tolist() == [7, 2, 3]
    assert held.float().tolist() == [7.0, 2.0, 3.0] and held.type() == "torch.LongStorage"
    assert x.storage_type() is torch.LongStorage
    shown = "[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 2]"
    assert repr(torch.FloatStorage([1, 2])) == f" 1.0\n 2.0\n{shown}"
    typed_storage.forget_warning()  # it is given once in a process
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        x.storage()

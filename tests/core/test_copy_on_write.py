"""Clones that share memory until one is written to: whatever writes, the other keeps its values."""

import copy
import io
import weakref

import numpy as np
import pytest

import flambeau as torch


def _optimizer_step(a):
    a.grad = torch.ones(8)
    torch.optim.SGD([a], lr=1.0).step()


WRITES = {
    "fill_": lambda a: a.fill_(7),
    "setitem": lambda a: a.__setitem__(2, 5),
    "copy_": lambda a: a.copy_(torch.ones(8)),
    "out": lambda a: torch.add(torch.ones(8), 1, out=a),
    "out of views": lambda a: torch.matmul(torch.ones(2, 4), torch.ones(4, 2), out=a[:4].view(2, 2)),
    "sort": lambda a: torch.sort(-torch.arange(8.0), out=(a, torch.empty(8, dtype=torch.long))),
    "index_put_": lambda a: a.index_put_((torch.tensor([1]),), torch.tensor(4.0)),
    "scatter_": lambda a: a.scatter_(0, torch.tensor([1]), 4.0),
    "normal_": lambda a: a.normal_(),
    "view": lambda a: a.view(2, 4).t()[1].fill_(3),
    "bits": lambda a: a.view(torch.int32).fill_(1),
    "foreach": lambda a: torch._foreach_add_([a], [torch.ones(8)]),
    "optimizer": _optimizer_step,
    "numpy": lambda a: a.numpy().fill(3),
    "asarray": lambda a: np.asarray(a).fill(3),
    "dlpack": lambda a: torch.from_dlpack(a).fill_(3),
    "data": lambda a: a.data.fill_(3),
    "storage": lambda a: a.untyped_storage().fill_(3),
    "resized": lambda a: a.resize_(20).fill_(2),
    "shared": lambda a: a.share_memory_().fill_(3),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("to_clone", [True, False])
def test_a_write_leaves_the_other_as_it_is(write, to_clone):
    original = torch.arange(8.0)
    clone = original._lazy_clone()
    written, kept = (clone, original) if to_clone else (original, clone)
    WRITES[write](written)
    assert kept.tolist() == list(range(8))
    assert written.tolist() != list(range(8)) and not torch._C._is_cow_tensor(written)


def test_memory_is_shared_until_a_write_and_the_last_keeps_it():
    original = torch.arange(4.0)
    address, storage = torch._C._data_address(original), torch._C._storage_address(original)
    clone, view = original._lazy_clone(), original.view(2, 2)
    total = original + clone
    assert total.tolist() == [0, 2, 4, 6]
    assert all(torch._C._is_cow_tensor(x) and torch._C._data_address(x) == address for x in (original, clone, view))
    assert torch._C._storage_address(view) == storage != torch._C._storage_address(clone)
    view += 1
    assert not torch._C._is_cow_tensor(original) and torch._C._is_cow_tensor(clone)
    assert torch._C._data_address(view) == torch._C._data_address(original) != address
    clone += 1
    assert torch._C._data_address(clone) == address and not torch._C._is_cow_tensor(clone)


def test_many_clones_and_what_is_gone():
    first = torch.ones(3)
    second, third = first._lazy_clone(), first._lazy_clone()._lazy_clone()
    del first
    second.add_(1)
    address = torch._C._data_address(third)
    third.add_(2)
    assert (second.tolist(), third.tolist()) == ([2, 2, 2], [3, 3, 3]) and torch._C._data_address(third) == address
    gone = weakref.ref(third.untyped_storage())
    del third
    assert gone() is None


def test_strides_offset_gradient_and_counts():
    base = torch.arange(6.0).view(2, 3)
    clone = base.t()[1:]._lazy_clone()
    assert (clone.stride(), clone.storage_offset(), clone.untyped_storage().nbytes()) == ((1, 3), 1, 24)
    x = torch.ones(3, requires_grad=True)
    y = torch._lazy_clone(x)
    assert y.grad_fn.name() == "LazyCloneBackward0" and not y._is_view()
    (y * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    one = torch.ones(2)
    other = one._lazy_clone()
    one.add_(1)
    assert (one._version, other._version) == (1, 0)


def test_arrays_and_aliases_are_copied_at_once():
    array = np.ones(3)
    clone = torch.from_numpy(array)._lazy_clone()
    array.fill(2)
    assert clone.tolist() == [1, 1, 1]
    tensor = torch.ones(3)
    alias = tensor.data
    clone = tensor._lazy_clone()
    alias.fill_(2)
    assert (tensor.tolist(), clone.tolist()) == ([2, 2, 2], [1, 1, 1])


def test_copies_and_files_keep_the_two_apart():
    one = torch.ones(3)
    pair = [one, one._lazy_clone()]
    file = io.BytesIO()
    torch.save(pair, file)
    file.seek(0)
    for first, second in (copy.deepcopy(pair), torch.load(file)):
        first.add_(1)
        assert (first.tolist(), second.tolist()) == ([2, 2, 2], [1, 1, 1])
    assert torch.vmap(torch._lazy_clone)(torch.ones(2, 2)).tolist() == [[1, 1], [1, 1]]
    assert torch._lazy_clone(torch.ones(2, device="meta")).shape == (2,)

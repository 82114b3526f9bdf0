"""Memory that several processes see: share_memory_, and tensors sent to other processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import threading
from multiprocessing.reduction import ForkingPickler

import pytest

import flambeau as torch


def in_a_child(work: object, *arguments: object) -> int:
    """Run a function in a forked process; its exit code."""
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments)
    process.start()
    process.join(30)
    return process.exitcode


def test_a_forked_child_writes_to_shared_memory_only():
    own, shared = torch.zeros(1000), torch.zeros(1000).share_memory_()
    view = shared.view(10, 100)[1:]

    def work() -> None:
        own.add_(1)
        shared.add_(1)
        view.mul_(3)

    assert in_a_child(work) == 0
    assert own.sum() == 0 and shared[:100].sum() == 100 and view.sum() == 2700


def test_sharing_moves_every_view_and_keeps_values():
    t = torch.arange(6.0)
    view, array = t[2:], t.numpy()
    assert not t.is_shared() and t.share_memory_() is t
    assert t.is_shared() and view.is_shared() and t.detach().is_shared() and t.data.is_shared()
    assert t.untyped_storage().is_shared() and t.untyped_storage().share_memory_().data_ptr() == t.data_ptr()
    view[0] = 7
    assert t.tolist() == [0, 1, 7, 3, 4, 5]
    assert array.tolist() == [0, 1, 2, 3, 4, 5]  # an array made before keeps the old memory, which stays
    assert not t.clone().is_shared() and not torch.empty(0).is_shared() and torch.empty(0).share_memory_().is_shared()
    with pytest.raises(RuntimeError, match="only available on CPU"):
        torch.ones(2, device="meta").share_memory_()


def test_a_module_trained_by_other_processes():
    model = torch.nn.Linear(3, 1)
    assert model.share_memory() is model and all(p.is_shared() and p.is_leaf for p in model.parameters())
    before = model.weight.detach().clone()

    def work() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()

    for _ in range(2):
        assert in_a_child(work) == 0
    torch.testing.assert_close(model.weight.detach(), before - 0.8)
    assert model.weight.grad is None


def test_a_tensor_in_a_queue_is_shared_with_its_receiver():
    context = multiprocessing.get_context("fork")
    there, back = context.SimpleQueue(), context.SimpleQueue()
    import flambeau.multiprocessing  # noqa: F401

    def work() -> None:
        received, parameter = there.get()
        received[1:].add_(10)
        parameter.data.mul_(2)
        back.put(received * 2)
        there.get()  # the sender stays until what it sent has been taken

    sent, parameter = torch.ones(3), torch.nn.Parameter(torch.ones(2))
    process = context.Process(target=work)
    process.start()
    there.put((sent[:], parameter))
    answer = back.get()
    there.put(None)
    process.join(30)
    assert sent.tolist() == [1, 11, 11] and sent.is_shared() and parameter.tolist() == [2, 2]
    assert answer.tolist() == [2, 22, 22]  # the memory outlives the process that made it


def test_data_of_a_tensor_is_shared_with_it():
    held = torch.ones(2)
    held.data.share_memory_()
    held.data.add_(1)
    assert held.is_shared() and held.tolist() == [2, 2]


SPAWN = """
import flambeau as torch
import flambeau.multiprocessing as mp

def work(rank, total):
    total[rank] += rank + 1

if __name__ == "__main__":
    total = torch.zeros(3)
    total.share_memory_()
    mp.spawn(work, (total,), nprocs=3)
    print(total.tolist())
"""


def test_spawned_processes_write_to_what_they_are_given(run_python, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SPAWN)
    answer = run_python(program)
    assert answer.stdout == "[1.0, 2.0, 3.0]\n", answer.stderr


def test_sending_needs_no_copy_and_leaves_no_descriptor():
    import flambeau.core.tensor.shared_memory  # noqa: F401

    t = torch.ones(5)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        ForkingPickler.dumps(torch.ones(2, requires_grad=True) * 2)
    assert not pickle.loads(pickle.dumps(t)).is_shared() and not t.is_shared()  # a plain pickle holds the values
    for _ in range(20):
        torch.ones(100).share_memory_()
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    with pytest.raises(RuntimeError, match="not resizable"):
        t.share_memory_().untyped_storage().resize_(100)


def test_what_comes_twice_is_one_storage():
    """Tensors that were sent one by one share memory, counts of writes and identity, as long as the first lives."""
    import flambeau.core.tensor.shared_memory

    t = torch.ones(5, 5)
    sent = [ForkingPickler.dumps(x) for x in (t, t[2], t)]
    back, row, again = map(pickle.loads, sent)
    assert back.untyped_storage() is row.untyped_storage() is again.untyped_storage() is t.untyped_storage()
    import flambeau.multiprocessing  # noqa: F401

    typed = pickle.loads(ForkingPickler.dumps(t.storage()))
    assert typed.dtype is torch.float32 and typed._cdata == t.storage()._cdata
    version = t._version
    row.zero_()
    assert t.sum() == 20 and t._version == version + 1
    del back, again, t, typed
    other = pickle.loads(ForkingPickler.dumps(torch.ones(5, 5)))
    assert other.untyped_storage() is not row.untyped_storage() and other.sum() == 25


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names of threads are Linux's")
def test_the_system_knows_threads_by_names():
    def named():
        torch.multiprocessing._set_thread_name("loader number 3 of 4")
        seen.append(torch.multiprocessing._get_thread_name())

    seen: list[str] = []
    thread = threading.Thread(target=named)
    thread.start()
    thread.join()
    assert seen == ["loader number 3"]

"""Kernels that are compiled at the same time: right whatever their pipelines, once per text, across forks and failures."""

import os
import random
import signal
import threading

import numpy as np
import pytest
from test_runtime import adding_kernel

import flambeau as torch
from flambeau.codegen import jit, llvm
from flambeau.codegen.images import cache
from flambeau.codegen.runtime import launch

PIPELINES = [llvm.EXPLICIT, llvm.VECTORISED, llvm.LIGHT, llvm.DIRECT, llvm.BRIEF, llvm.QUICK, llvm.COMBINED]


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CACHE", "0")
    cache.directory.cache_clear()
    yield
    cache.directory.cache_clear()


def apply(address: jit.Address, x: torch.Tensor) -> np.ndarray:
    return launch.plan([launch.Phase(address, x.numel(), 64, [])], [x._layout], [x._layout])(None, x).numpy()


def test_kernels_of_all_pipelines_at_the_same_time():
    x, amounts = torch.arange(1000, dtype=torch.float32), random.sample(range(1 << 20), 4 * len(PIPELINES))
    before = jit.statistics["compiled"]
    made = [jit.compile_kernel(adding_kernel(float(amount)), pipeline=PIPELINES[i % len(PIPELINES)])
            for i, amount in enumerate(amounts)]
    for amount, address in zip(amounts, made, strict=True):
        assert np.array_equal(apply(address, x), x.numpy() + np.float32(amount))
    assert jit.statistics["compiled"] == before + len(amounts)


def test_kernels_with_other_options_wait_and_those_with_the_same_do_not():
    jit._Compilation.start_idle()       # what earlier tests never asked for has options, too
    first = llvm.Translation(adding_kernel(1.0), llvm.DIRECT)
    assert llvm.Translation(adding_kernel(2.0), llvm.BRIEF).emit()
    made: list[bytes] = []
    other = threading.Thread(target=lambda: made.append(llvm.Translation(adding_kernel(3.0), llvm.EXPLICIT).emit()))
    other.start()
    other.join(0.2)
    assert not made
    first.emit()
    other.join()
    assert made


def test_threads_that_want_the_same_kernel_compile_it_once():
    text, before = adding_kernel(random.random()), jit.statistics["compiled"]
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(int(jit.compile_kernel(text).__index__()))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len(set(found)) == 1
    assert jit.statistics["compiled"] == before + 1


def test_a_forked_process_can_use_what_was_being_compiled():
    x, amount = torch.ones(8), random.random()
    address = jit.compile_kernel(adding_kernel(amount))     # on a thread from the next one on
    jit.compile_kernel(adding_kernel(random.random()))
    child = os.fork()
    if not child:
        signal.alarm(30)    # rather than wait for what will never end
        another = jit.compile_kernel(adding_kernel(3.75))
        os._exit(0 if np.allclose(apply(address, x), 1 + amount) and np.allclose(apply(another, x), 4.75) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.allclose(apply(address, x), 1 + amount)


@pytest.mark.parametrize("text", ["define void @kernel( {", "define void @kernel() { ret i32 1 }"])
def test_a_text_that_is_refused_holds_nothing_up(text):
    for _ in range(2):
        with pytest.raises(RuntimeError):
            jit.compile_kernel(text)
    good = jit.compile_kernel(adding_kernel(1.5), pipeline=llvm.VECTORISED)
    assert np.allclose(apply(good, torch.zeros(8)), 1.5)


@pytest.mark.parametrize("more", [0, 1], ids=["by who asks", "on a thread"])
def test_what_fails_in_translation_is_raised_where_the_address_is_asked_for(monkeypatch, more):
    def fail(self):
        with self._held:
            raise OSError("no memory")
    text = adding_kernel(random.random())
    with monkeypatch.context() as m:
        m.setattr(llvm.Translation, "emit", fail)
        address = jit.compile_kernel(text)
        for _ in range(more):
            jit.compile_kernel(adding_kernel(random.random()))
        for _ in range(2):
            with pytest.raises(OSError, match="no memory"):
                address.__index__()
    assert address.__index__() == jit.compile_kernel(text).__index__()      # and tried again


def test_without_threads_kernels_are_compiled_all_the_same(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    amounts = [random.random() for _ in range(3)]
    for amount, address in zip(amounts, [jit.compile_kernel(adding_kernel(amount)) for amount in amounts], strict=True):
        assert np.allclose(apply(address, torch.ones(8)), 1 + amount)

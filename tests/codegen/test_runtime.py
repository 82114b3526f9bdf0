"""The native runtime: kernels from text, the disk cache, plans, memory, threads."""

import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen import jit
from flambeau.codegen.builder import kernel, module
from flambeau.codegen.object_cache import cache, link
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime.messages import KernelCheck
from flambeau.codegen.targets import lowered
from flambeau.core.tensor import storage


def adding_kernel(amount: float) -> str:
    f = kernel()
    out, x = f.buffer(0), f.buffer(1)
    with f.loop(f["begin"], f["end"]) as i:
        f.store(f.load("float", x, i) + amount, out, i)
    return module(f)


def test_a_plan_allocates_runs_and_returns():
    x = torch.arange(100_000, dtype=torch.float32)
    address = jit.kernel_of_text(adding_kernel(2.5))
    run = lowered(Plan([Phase(address, 100_000, 1000, [])], [x._layout], [x._layout]))
    y = run(None, x)
    assert np.array_equal(y.numpy(), x.numpy() + 2.5)
    before = x._version
    run(x, x)
    assert x._version == before + 1 and x[7].item() == 9.5


def test_phases_share_scratch_and_parameters():
    first = kernel()
    with first.loop(first["begin"], first["end"]) as i:
        doubled = first.load("float", first.buffer(1), i) * 2.0
        first.store(doubled, first.pointer(first.parameter(1)), i)
    second = kernel()
    with second.loop(second["begin"], second["end"]) as i:
        second.store(second.load("float", second.pointer(second.parameter(1)), i) + 1.0, second.buffer(0), i)
    x = torch.randn(1000)
    phases = [Phase(jit.kernel_of_text(module(f)), 1000, 100, []) for f in (first, second)]
    y = lowered(Plan(phases, [x._layout], [x._layout], scratch=4000))(None, x)
    assert np.allclose(y.numpy(), x.numpy() * 2 + 1)


def test_an_error_word_raises_and_leaves_nothing_behind():
    f = kernel()
    f.store(f.i64(7), f["p"], 2)
    x = torch.randn(4)
    run = lowered(Plan([Phase(jit.kernel_of_text(module(f)), 1, 1, [])], [x._layout], []))
    before = storage.memory_statistics()["allocated_bytes"]
    with pytest.raises(KernelCheck) as caught:
        run(None)
    assert caught.value.args[0] == 7
    assert storage.memory_statistics()["allocated_bytes"] == before


def test_scalars_must_be_numbers_in_range():
    f = kernel()
    f.store(f.parameter(5), f.buffer(0), 0)
    out = torch.zeros(1, dtype=torch.int64)
    run = lowered(Plan([Phase(jit.kernel_of_text(module(f)), 1, 1, [])], [out._layout], [], "i"))
    assert run(None, 41).item() == 41
    with pytest.raises(OverflowError):
        run(None, 1 << 70)
    with pytest.raises(TypeError):
        run(None, "41")


def test_freed_memory_is_used_again():
    a = torch.empty(1_000_000)
    address = a.data_ptr()
    assert address % 64 == 0
    del a
    assert torch.empty(1_000_000).data_ptr() == address
    storage.empty_cache()
    assert storage.memory_statistics()["cached_bytes"] == 0


def test_more_memory_than_there_is():
    with pytest.raises((MemoryError, RuntimeError)):
        torch.empty(1 << 60)


def test_damaged_cache_entries_are_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CACHE", str(tmp_path))
    cache.directory.cache_clear()
    try:
        text = adding_kernel(11.25)
        jit.kernel_of_text(text).__index__()
        files = list(tmp_path.glob("*.image"))
        assert files
        for damage in (b"", b"garbage", files[0].read_bytes()[:-3]):
            files[0].write_bytes(damage)
            jit._modules.pop(text, None)
            compiled = jit.statistics["compiled"]
            jit.kernel_of_text(text).__index__()
            assert jit.statistics["compiled"] == compiled + 1
            assert len(files[0].read_bytes()) > 100
        jit._modules.pop(text)
        compiled = jit.statistics["compiled"]
        jit.kernel_of_text(text).__index__()
        assert jit.statistics["compiled"] == compiled
    finally:
        cache.directory.cache_clear()


def test_a_cache_that_others_may_write_is_not_used(tmp_path, monkeypatch):
    os.chmod(tmp_path, 0o777)
    monkeypatch.setenv("FLAMBEAU_CACHE", str(tmp_path))
    cache.directory.cache_clear()
    try:
        assert cache.directory() is None
    finally:
        cache.directory.cache_clear()


def test_without_any_cache(tmp_path):
    program = "import flambeau as torch; print((torch.ones(3) + 1).tolist())"
    env = dict(os.environ, FLAMBEAU_CACHE="0")
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "[2.0, 2.0, 2.0]", done.stderr


def test_objects_of_other_platforms_are_refused():
    with pytest.raises(NotImplementedError, match="x86-64"):
        link.link(b"\x7fELF\x02\x01" + bytes(100))


def _big_sum(_=None):
    return float((torch.ones(300_000) * 2).sum())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_pool_survives_fork():
    assert _big_sum() == 600_000
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(_big_sum, range(4), chunksize=1) == [600_000.0] * 4
    assert _big_sum() == 600_000


def test_python_threads_share_the_pool():
    failures = []

    def work():
        for _ in range(50):
            if _big_sum() != 600_000:
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_numbers_of_threads():
    before = torch.get_num_threads()
    try:
        for n in (1, 3, 2):
            torch.set_num_threads(n)
            assert torch.get_num_threads() == n
            assert _big_sum() == 600_000
        with pytest.raises(RuntimeError, match="positive"):
            torch.set_num_threads(0)
    finally:
        torch.set_num_threads(before)


def test_an_empty_operand_may_begin_behind_its_storage():
    index = torch.empty(2, 0, dtype=torch.int64)[1]
    assert index.storage_offset() == 1 and index.untyped_storage().nbytes() == 0
    assert torch.zeros(3).index_add(0, index, torch.empty(0)).tolist() == [0, 0, 0]
    assert torch.zeros(3)[index].tolist() == [] and (index + 1).tolist() == []

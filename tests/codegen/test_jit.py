"""Kernels that are compiled at the same time: right whatever their pipelines, once per text, across forks and failures."""

import os
import random
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from test_runtime import adding_kernel

import flambeau as torch
from flambeau.codegen import jit, llvm, partition
from flambeau.codegen.object_cache import cache
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.targets import lowered

PIPELINES = [llvm.EXPLICIT, llvm.VECTORISED, llvm.LIGHT, llvm.DIRECT, llvm.BRIEF, llvm.QUICK, llvm.COMBINED]


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CACHE", "0")
    cache.directory.cache_clear()
    yield
    cache.directory.cache_clear()


def apply(address: jit.KernelRef, x: torch.Tensor) -> np.ndarray:
    return lowered(Plan([Phase(address, x.numel(), 64, [])], [x._layout], [x._layout]))(None, x).numpy()


def test_kernels_of_all_pipelines_at_the_same_time():
    x, amounts = torch.arange(1000, dtype=torch.float32), random.sample(range(1 << 20), 4 * len(PIPELINES))
    before = jit.statistics["compiled"]
    made = [
        jit.kernel_of_text(adding_kernel(float(amount)), pipeline=PIPELINES[i % len(PIPELINES)])
        for i, amount in enumerate(amounts)
    ]
    for kernel in made:
        kernel.begin()
    for amount, address in zip(amounts, made, strict=True):
        assert np.array_equal(apply(address, x), x.numpy() + np.float32(amount))
    assert jit.statistics["compiled"] == before + len(amounts)


def test_kernels_with_other_options_wait_and_those_with_the_same_do_not():
    jit._Compilation.start_idle()  # what earlier tests never asked for has options, too
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
    threads = [threading.Thread(target=lambda: found.append(int(jit.kernel_of_text(text).__index__()))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len(set(found)) == 1
    assert jit.statistics["compiled"] == before + 1


def test_a_forked_process_can_use_what_was_being_compiled():
    x, amount = torch.ones(8), random.random()
    address = jit.kernel_of_text(adding_kernel(amount))  # on a thread from the next one on
    for kernel in (address, jit.kernel_of_text(adding_kernel(random.random()))):
        kernel.begin()
    child = os.fork()
    if not child:
        signal.alarm(30)  # rather than wait for what will never end
        another = jit.kernel_of_text(adding_kernel(3.75))
        os._exit(0 if np.allclose(apply(address, x), 1 + amount) and np.allclose(apply(another, x), 4.75) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.allclose(apply(address, x), 1 + amount)


@pytest.mark.parametrize("text", ["define void @kernel( {", "define void @kernel() { ret i32 1 }"])
def test_a_text_that_is_refused_holds_nothing_up(text):
    for _ in range(2):
        with pytest.raises(RuntimeError):
            jit.kernel_of_text(text).__index__()
    good = jit.kernel_of_text(adding_kernel(1.5), pipeline=llvm.VECTORISED)
    assert np.allclose(apply(good, torch.zeros(8)), 1.5)


@pytest.mark.parametrize("more", [0, 1], ids=["by who asks", "on a thread"])
def test_what_fails_in_translation_is_raised_where_the_address_is_asked_for(monkeypatch, more):
    def fail(self):
        with self._held:
            raise OSError("no memory")

    text = adding_kernel(random.random())
    with monkeypatch.context() as m:
        m.setattr(llvm.Translation, "emit", fail)
        address = jit.kernel_of_text(text)
        address.begin()
        for _ in range(more):
            jit.kernel_of_text(adding_kernel(random.random())).begin()
        for _ in range(2):
            with pytest.raises(OSError, match="no memory"):
                address.__index__()
    assert address.__index__() == jit.kernel_of_text(text).__index__()  # and tried again


def test_without_threads_kernels_are_compiled_all_the_same(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    amounts = [random.random() for _ in range(3)]
    for amount, address in zip(amounts, [jit.kernel_of_text(adding_kernel(amount)) for amount in amounts], strict=True):
        assert np.allclose(apply(address, torch.ones(8)), 1 + amount)


MODULE = """
@table = private unnamed_addr constant [2 x float] [float 3.0, float 5.0]
declare float @llvm.sqrt.f32(float)
define internal float @inlined(float %x) alwaysinline nounwind {
  %y = fadd float %x, 1.0
  ret float %y
}
define internal float @first(float %x, i64 %more) noinline nounwind {
  %p = getelementptr float, ptr @table, i64 %more
  %t = load float, ptr %p
  %r = call float @llvm.sqrt.f32(float %x)
  %s = fadd float %r, %t
  %last = icmp eq i64 %more, 0
  br i1 %last, label %done, label %on
on:
  %u = call float @second.part(float %s, i64 0)
  ret float %u
done:
  ret float %s
}
define internal float @second.part(float %x, i64 %more) noinline nounwind {
  %i = call float @inlined(float %x)
  %u = call float @first(float %i, i64 %more)
  ret float %u
}
define void @kernel(ptr %p, i64 %begin, i64 %end, i64 %thread) nounwind {
  %ofield = getelementptr i64, ptr %p, i64 4
  %o = load i64, ptr %ofield
  %out = inttoptr i64 %o to ptr
  %v = call float @second.part(float 8.0, i64 1)
  store float %v, ptr %out
  ret void
}
"""


def test_the_halves_of_a_module_call_each_other(monkeypatch):
    monkeypatch.setattr(partition, "ENOUGH_LINES", 0)
    parts = partition.halves(MODULE)
    assert len(parts) == 2
    for name in ("@first(", "@second.part(", "@kernel("):
        assert sum(line.startswith("define") and name in line for part in parts for line in part.splitlines()) == 1
    x = torch.zeros(1)
    made = lowered(Plan([Phase(jit.kernel_of_text(MODULE), 1, 1, [])], [x._layout], []))(None)
    assert made.item() == 6


def test_halves_compute_what_the_whole_does():
    program = """
import sys, hashlib, flambeau as torch
from flambeau.codegen import partition
partition.ENOUGH_LINES = int(sys.argv[1])
torch.manual_seed(0)
x, y = torch.randn(40, 40), torch.rand(300) * 9
made = [*torch.linalg.svd(x), torch.linalg.eigvalsh(x + x.t()), torch.linalg.inv(x), torch.igammac(y, y.flip(0)), y.lgamma(),
        torch.poisson(y), y.sort()[1], torch.special.airy_ai(y), torch.nn.functional.conv2d(x[None, None], x[None, None, :3, :3])]
print(*[hashlib.sha256(t.contiguous().numpy().tobytes()).hexdigest() for t in made])
"""
    env = dict(os.environ, FLAMBEAU_CACHE="0")
    ran = [
        subprocess.run([sys.executable, "-c", program, lines], env=env, capture_output=True, text=True, timeout=300)
        for lines in ("0", "1000000")
    ]
    assert ran[0].stdout and ran[0].stdout == ran[1].stdout, ran[0].stderr


written: list[float] = []


def write_adding(amount: float) -> str:
    written.append(amount)
    return adding_kernel(amount)


def test_a_kernel_on_disk_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CACHE", str(tmp_path))
    monkeypatch.setattr(jit, "_SOURCES", (__name__,))
    cache.directory.cache_clear()
    first, second = random.random(), random.random()
    for amount in (first, second):  # a process each, as far as the caches in memory go
        assert np.allclose(apply(jit.compiled()(write_adding)(amount), torch.zeros(8)), amount)
    assert written[-2:] == [first, second]
    jit._modules.clear()
    again = jit.compiled()(write_adding)
    for amount in (second, first):
        assert np.allclose(apply(again(amount), torch.zeros(8)), amount) and again(amount) is again(amount)
    assert written[-2:] == [first, second]
    monkeypatch.setattr(jit, "_SOURCES", ("flambeau.codegen.",))  # sources whose state nobody tells: found by its text
    jit._modules.clear()
    assert np.allclose(apply(jit.compiled()(write_adding)(first), torch.zeros(8)), first) and len(written) >= 3


def test_a_kernel_is_not_compiled_before_it_is_wanted():
    text, before = adding_kernel(random.random()), jit.loaded()
    kernel = jit.kernel_of_text(text, "plus.float32")
    assert jit.loaded() == before and repr(kernel) == "<kernel plus.float32>"
    assert kernel.__index__() == kernel.begin() and jit.loaded() == before + 1


def test_kernels_bear_names_in_their_texts_and_are_found_by_what_they_do(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CACHE", str(tmp_path))
    cache.directory.cache_clear()
    text, before = adding_kernel(random.random()), jit.statistics["compiled"]
    kernel, other = (jit.kernel_of_text(text, name) for name in ("plus.float32", "another name"))
    assert "define void @plus.float32(ptr %p" in " ".join(kernel.text().split()) and "@another_name(" in other.text()
    assert kernel.__index__() == other.__index__()
    jit._modules.clear()  # as in another process
    again = jit.kernel_of_text(text, "another name")
    assert again.__index__() and jit.statistics["compiled"] == before + 1
    x = torch.zeros(8)
    assert np.allclose(apply(again, x), apply(kernel, x))


def test_operators_names_are_their_kernels_names():
    x, before = torch.ones(3, 37), jit.loaded()
    torch.softmax(x, -1)
    (x @ x.T).expm1()
    names = {kernel.name for kernel in jit.loaded_since(before)}
    assert {"softmax.float32.row", "expm1.float32"} <= names | {kernel.name for kernel in jit.loaded_since(0)}
    from flambeau.codegen.element_type import kind_of
    from flambeau.codegen.pooling import windows

    assert windows.spread_kernel(kind_of("float64"), True).name == "pooling.windows.spread.float64"


def test_a_compilation_that_fails_names_its_kernel():
    with pytest.raises(RuntimeError) as caught:
        jit.kernel_of_text("define void @kernel() { ret i32 1 }", "wrong.float32").__index__()
    assert caught.value.__notes__ == ["while kernel wrong.float32 was compiled"]


def test_perf_is_told_where_kernels_lie():
    program = """
import os, flambeau as torch
from flambeau.codegen import jit
torch.ones(5, 3).softmax(-1)
kernel = next(k for k in jit.loaded_since(0) if k.name == "softmax.float32.row")
with open(f"/tmp/perf-{os.getpid()}.map") as file:
    lines = [line.split() for line in file]
os.remove(file.name)
assert [int(line[0], 16) for line in lines if line[2] == kernel.name] == [int(kernel.__index__())]
assert all(int(line[1], 16) for line in lines), lines
assert any(line[2] == "runtime.launch.fb_launch" for line in lines)
"""
    env = dict(os.environ, FLAMBEAU_PERF="1")
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr


def test_the_names_for_perf_are_not_written_through_a_link(tmp_path, monkeypatch):
    from flambeau.codegen.object_cache import perf_map
    from flambeau.codegen.object_cache.image import Image

    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("kept\n")
    link.symlink_to(target)
    monkeypatch.setattr(perf_map, "path", lambda process: str(link))
    with pytest.raises(OSError):
        perf_map.add(Image(b"\xc3", {"kernel": 0}, {}, []), {"kernel": 0}, "name", "kernel")
    with pytest.raises(OSError):
        perf_map.in_child(0)
    link.unlink()
    os.link(target, link)
    with pytest.raises(PermissionError, match="somebody else's file"):
        perf_map.in_child(0)
    assert target.read_text() == "kept\n"


def test_what_kernels_are_found_by_tells_their_arguments_apart():
    from flambeau.codegen.element_type import kind_of
    from flambeau.codegen.factorization.columns import Field
    from flambeau.codegen.products.epilogue import Epilogue, relu

    values = [
        1,
        1.0,
        True,
        "1",
        None,
        "None",
        (1,),
        (1, ""),
        ((1,), ""),
        Field("float", False),
        ("float", False),
        0.0,
        -0.0,
        kind_of("int8"),
        kind_of("uint8"),
        torch.float32,
        "float32",
        relu,
        Epilogue(),
        Epilogue(activation="relu", apply=relu),
    ]
    words = [jit._words(value) for value in values]
    assert None not in words and len(set(words)) == len(words)
    more = random.random()

    def apply_more(f, x):
        return more

    apply_more.__module__ = relu.__module__
    for value in (lambda: 1, apply_more, random.random, write_adding, object(), (1, [2]), Epilogue(apply=lambda f, x: x)):
        assert jit._words(value) is None

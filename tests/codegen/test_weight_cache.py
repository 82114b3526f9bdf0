"""Weights that are packed once: never stale, the same bits as without, bounded, and gone with the weight."""

from __future__ import annotations

import ctypes
import gc
import io
import subprocess
import sys
import threading

import numpy as np
import pytest

import flambeau as torch
from flambeau.base.layout import clear_caches
from flambeau.codegen.runtime import state, weight_cache
from flambeau.core.tensor.storage import empty_cache, memory_statistics
from flambeau.nn import functional as F

ROWS, IN, OUT = 128, 192, 256  # large enough that the second operand is packed


@pytest.fixture(autouse=True)
def clean():
    before = torch.get_weight_cache()
    if before != "auto":
        torch.set_weight_cache("auto")
    weight_cache.clear()
    with torch.no_grad():
        yield
    if torch.get_weight_cache() != before:
        torch.set_weight_cache(before)


def product(x, w):
    return F.linear(x, w)


def image(shape, channels):
    return torch.arange(float(channels)).view(1, channels, 1, 1).sin() + torch.randn(shape)


#: By name: what is computed of (x, w), and the shapes of the two.
USES = {
    "product": (product, (ROWS, IN), (OUT, IN)),
    "product with strides": (lambda x, w: x @ w[:, : OUT - 8], (ROWS, IN), (IN, OUT)),
    "batches": (lambda x, w: x @ w, (2, ROWS, IN), (IN, OUT)),
    "winograd": (lambda x, w: F.conv2d(x, w, padding=1), (1, 64, 16, 16), (64, 64, 3, 3)),
    "direct": (lambda x, w: F.conv2d(x, w, stride=2), (1, 96, 29, 29), (64, 96, 3, 3)),
    "direct, groups": (lambda x, w: F.conv2d(x, w, groups=2), (1, 96, 17, 17), (64, 48, 2, 2)),
}


def operands(name="product", dtype=torch.float32):
    use, x, w = USES[name]
    torch.manual_seed(1)
    return use, torch.randn(x, dtype=dtype), torch.randn(w, dtype=dtype)


def kept() -> int:
    return memory_statistics()["weight_cache_bytes"]


def warm(use, x, w):
    for _ in range(4):
        use(x, w)


def fresh(use, x, w):
    """The result without the cache: of a weight that is used for the first time."""
    return use(x, w.detach().clone())


def check(use, x, w):
    wanted = fresh(use, x, w)
    for _ in range(4):
        assert torch.equal(use(x, w).view(torch.uint8), wanted.view(torch.uint8))


@pytest.mark.parametrize("name", list(USES))
def test_kept_from_the_second_call_on_with_the_same_bits(name):
    use, x, w = operands(name)
    wanted = use(x, w)
    assert kept() == 0
    assert torch.equal(use(x, w), wanted)
    assert 0 < kept() <= 4 * w.nbytes
    check(use, x, w)
    check(use, x * 3, w)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32], ids=str)
def test_dtypes(dtype):
    use = product
    x, w = (torch.randint(-9, 9, shape).to(dtype) for shape in ((ROWS, IN), (OUT, IN)))
    warm(use, x, w)
    assert kept() > 0
    check(use, x, w)
    w.mul_(2)
    check(use, x, w)


def test_numbers_of_rows_share_what_is_packed():
    _, _, w = operands()
    for rows in (64, 70, 80, 90):
        x = torch.randn(rows, IN)
        check(product, x, w)
    first = kept()
    x = torch.randn(100, IN)
    check(product, x, w)
    assert kept() == first


def test_values_that_are_not_finite():
    use, x, w = operands("winograd")
    warm(use, x, w)
    x[0, 5, 3, 3] = float("inf")
    check(use, x, w)
    x[0, 5, 3, 3] = float("nan")
    check(use, x, w)
    w[:, :, 0] = 0
    check(use, x, w)


def test_bias_and_epilogue():
    _, x, w = operands()
    bias = torch.randn(OUT)
    check(lambda x, w: F.linear(x, w, bias), x, w)
    check(lambda x, w: torch.addmm(bias, x, w.t(), beta=0.5, alpha=2), x, w)
    out = torch.empty(ROWS, OUT)
    check(lambda x, w: torch.mm(x, w.t(), out=out).clone(), x, w)


# ---------------------------------------------------------------- every way to write


def by_numpy(w):
    w.numpy()[3, 5] += 1


def by_array(w):
    np.asarray(w)[3, 5] += 1


def by_dlpack_tensor(w):
    torch.from_dlpack(w).add_(1)


def by_address(w):
    ctypes.c_float.from_address(w.data_ptr() + 40).value += 1


def by_address_of_storage(w):
    ctypes.c_float.from_address(w.untyped_storage().data_ptr() + 40).value += 1


def by_address_of_an_alias(w):
    ctypes.c_float.from_address(w.data.data_ptr() + 40).value += 1


def by_bytes(w):
    memoryview(w.untyped_storage())[8:12] = b"abcd"


def by_storage_copy(w):
    w.untyped_storage().copy_(torch.randn_like(w).untyped_storage())


def by_file(w):
    file = io.BytesIO()
    torch.save(torch.randn_like(w), file)
    file.seek(0)
    w.copy_(torch.load(file))


def by_state_dict(w):
    layer = torch.nn.Linear(w.shape[-1], w.shape[0], bias=False)
    layer.weight.data = w
    layer.load_state_dict({"weight": torch.randn_like(layer.weight)})


def by_optimizer(kind, **options):
    def write(w):
        parameter = torch.nn.Parameter(w)
        parameter.grad = torch.randn_like(w)
        made = kind([parameter], lr=0.1, **options)
        made.step()
        made.step()

    return write


def by_set(w):
    w.set_(torch.randn(w.shape))


def by_set_data(w):
    w.data = torch.randn(w.shape)


def by_resizing(w):
    storage = w.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    storage.resize_(size)
    w.copy_(torch.randn(w.shape))


def by_sharing(w):
    w.share_memory_()
    memoryview(w.untyped_storage())[8:12] = b"abcd"


def by_lazy_clone(w):
    other = torch._lazy_clone(w)
    other.add_(1)
    w.add_(2)


def by_rewinding(w):
    version = w._version
    w.add_(1)
    torch._C._autograd._unsafe_set_version_counter((w,), (version,))


def by_thread(w):
    thread = threading.Thread(target=lambda: w.add_(1))
    thread.start()
    thread.join()


def by_inference_mode(w):
    with torch.inference_mode():
        w.add_(1)


def by_swapping(w):
    torch.utils.swap_tensors(w, torch.randn(w.shape))


def by_running_statistics(w):
    """Which moves no version."""
    mean = w.view(-1)
    F.batch_norm(torch.randn(2, mean.numel()), mean, torch.ones_like(mean), training=True)


def by_embedding(w):
    F.embedding(torch.arange(w.shape[0]), w.view(w.shape[0], -1), max_norm=0.1)


def by_typed_storage(w):
    w.storage()[5] = 3.0


def by_slice_of_storage(w):
    part = w.untyped_storage()[0:64]
    torch.empty(0).set_(part, 0, (16,)).fill_(3)


def by_another_tensor_over_it(w):
    torch.empty(0).set_(w.untyped_storage(), 0, (16,)).fill_(3)


def by_bytes_of_it(w):
    w.view(torch.int32)[1] += 1


def by_generated(w):
    w.normal_()
    torch.nn.init.kaiming_uniform_(w)


WRITES = {
    "add_": lambda w: w.add_(1),
    "mul_ by a tensor": lambda w: w.mul_(torch.full((), 2.0)),
    "copy_": lambda w: w.copy_(torch.randn(w.shape)),
    "zero_": lambda w: w.zero_(),
    "item": lambda w: w.__setitem__((2, 3), 9.0),
    "slice": lambda w: w[1:3].fill_(4),
    "mask": lambda w: w.masked_fill_(w > 0, 3),
    "index": lambda w: w.index_add_(0, torch.tensor([1]), torch.ones(1, *w.shape[1:])),
    "put": lambda w: w.index_put_((torch.tensor([1]),), torch.ones(w.shape[1:])),
    "scatter": lambda w: w.view(-1).scatter_(0, torch.tensor([5]), 3.0),
    "transposed": lambda w: w.transpose(0, 1).add_(1),
    "view": lambda w: w.view(-1)[7:9].zero_(),
    "strided": lambda w: w.as_strided((4,), (3,), 2).fill_(1),
    "detached": lambda w: w.detach().add_(1),
    "data": lambda w: w.data.add_(1),
    "data of data": lambda w: w.data.data.add_(1),
    "view of data": lambda w: w.data[2:3].add_(1),
    "out": lambda w: torch.add(w, 1, out=w),
    "foreach": lambda w: torch._foreach_add_([w], 1),
    "foreach copy": lambda w: torch._foreach_copy_([w], [torch.randn(w.shape)]),
    "dropout": lambda w: F.dropout(w, 0.5, inplace=True),
    "relu": lambda w: F.relu(w, inplace=True),
    "numpy of data": lambda w: by_numpy(w.data),
    "vector to parameters": lambda w: torch.nn.utils.vector_to_parameters(torch.randn(w.numel()), [w]),
    "SGD": by_optimizer(torch.optim.SGD),
    "SGD, foreach": by_optimizer(torch.optim.SGD, foreach=True),
    "SGD, fused": by_optimizer(torch.optim.SGD, fused=True),
    "Adam": by_optimizer(torch.optim.Adam),
    "Adam, fused": by_optimizer(torch.optim.Adam, fused=True),
    "AdamW, foreach": by_optimizer(torch.optim.AdamW, foreach=True),
    **{
        f.__name__: f
        for f in (
            by_array, by_dlpack_tensor, by_address, by_address_of_storage, by_address_of_an_alias, by_bytes, by_storage_copy,
            by_file, by_state_dict, by_set, by_set_data, by_resizing, by_sharing, by_lazy_clone, by_rewinding,
            by_thread, by_inference_mode, by_swapping, by_running_statistics, by_embedding, by_typed_storage,
            by_slice_of_storage, by_another_tensor_over_it, by_bytes_of_it, by_generated,
        )
    },
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize("name", list(WRITES))
def test_no_write_goes_unseen(name):
    use, x, w = operands()
    warm(use, x, w)
    assert kept() > 0
    before = w.clone()
    WRITES[name](w)
    assert not torch.equal(w, before), "nothing was written"
    check(use, x, w)
    WRITES[name](w)  # what it did may be there still
    check(use, x, w)


#: By name: what is taken of a weight before, and how it is written to by that later.
TAKEN = {
    "array": (lambda w: w.numpy(), lambda a: a.__setitem__((3, 5), 7.0)),
    "array of an alias": (lambda w: w.data.numpy(), lambda a: a.__setitem__((3, 5), 7.0)),
    "memory view": (lambda w: memoryview(w.untyped_storage()), lambda a: a.__setitem__(slice(8, 12), b"abcd")),
    "alias": (lambda w: w.data, lambda a: a.add_(1)),
    "alias of an alias": (lambda w: w.data.data, lambda a: a.add_(1)),
    "address": (lambda w: w.data_ptr(), lambda a: setattr(ctypes.c_float.from_address(a + 40), "value", 7.0)),
    "address of storage": (
        lambda w: w.untyped_storage().data_ptr(),
        lambda a: setattr(ctypes.c_float.from_address(a + 40), "value", 7.0),
    ),
    "address of an alias": (lambda w: w.data.data_ptr(), lambda a: setattr(ctypes.c_float.from_address(a + 40), "value", 7.0)),
    "part": (lambda w: w.untyped_storage()[0:64], lambda a: a.fill_(3)),
    "tensor by DLPack": (lambda w: torch.from_dlpack(w), lambda a: a.add_(1)),
    "lazy clone": (lambda w: torch._lazy_clone(w), lambda a: a.add_(1)),
}


@pytest.mark.parametrize("name", list(TAKEN))
def test_what_was_taken_before(name):
    use, x, w = operands()
    take, write = TAKEN[name]
    held = take(w)
    for number in range(2):
        check(use, x, w)
        write(held)
        check(use, x, w)
        if not number:
            warm(use, x, w)
            held = take(w)


@pytest.mark.parametrize("make", ["array", "part of an array", "bytes", "mapped file", "shared", "view of shared"])
def test_memory_of_others_is_not_kept(make, tmp_path):
    use, x, w = operands()
    array = w.numpy().copy()
    if make == "array":
        w = torch.from_numpy(array)
    elif make == "part of an array":
        w = torch.from_numpy(array.reshape(-1)).view(OUT, IN)
    elif make == "bytes":
        w = torch.frombuffer(bytearray(array.tobytes()), dtype=torch.float32).view(OUT, IN)
    elif make == "mapped file":
        array.tofile(tmp_path / "w")
        w = torch.from_file(str(tmp_path / "w"), shared=True, size=OUT * IN).view(OUT, IN)
    else:
        w = w.clone().share_memory_()
        w = w if make == "shared" else w[:]
    warm(use, x, w)
    assert kept() == 0
    check(use, x, w)


def test_a_weight_that_had_aliases_is_kept_when_they_are_gone():
    use, x, w = operands()
    w.data.normal_()
    alias = w.data
    warm(use, x, w)
    assert kept() == 0
    del alias
    warm(use, x, w)
    assert kept() > 0
    check(use, x, w)


def test_a_write_at_the_same_time():
    """Another thread's kernel may be half done with the weight: what is read now isn't kept."""
    use, x, w = operands()
    state.words[state.WRITING] += 1
    try:
        warm(use, x, w)
        assert kept() == 0
    finally:
        state.words[state.WRITING] -= 1
    warm(use, x, w)
    assert kept() > 0
    assert state.words[state.WRITING] == 0


def test_nothing_is_kept_while_a_launch_is_about_to_write():
    """It has told that it writes, and the conversion of a number runs the program before it does."""
    use, x, w = operands()
    warm(use, x, w)
    assert kept() > 0
    seen = []

    class Number:
        def __index__(self):
            warm(use, x, w)
            seen.append((state.words[state.WRITING], kept()))
            return 1

    w.add_(w.clone(), alpha=Number())
    assert seen == [(1, 0)] and state.words[state.WRITING] == 0
    check(use, x, w)
    assert kept() > 0


def test_threads_that_read_and_write():
    use, x, w = operands()
    w.zero_()
    wanted = {}
    failed = []
    done = threading.Event()

    def read():
        while not done.is_set():
            with torch.no_grad():
                use(x, w)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for i in range(100):
            w.fill_(i)
            if i not in wanted:
                wanted[i] = fresh(use, x, w)
            for _ in range(3):
                if not torch.equal(use(x, w), wanted[i]):
                    failed.append(i)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not failed


# ---------------------------------------------------------------- what is kept, and how long


def test_not_where_a_gradient_is_wanted():
    use, x, w = operands()
    w.requires_grad_()
    with torch.enable_grad():
        for _ in range(4):
            use(x, w)
        assert kept() == 0
    warm(use, x, w)
    size = kept()
    assert size > 0
    with torch.enable_grad():
        assert torch.equal(use(x, w), fresh(use, x, w))
        use(x, w).sum().backward()
        w.data.add_(1)
        use(x, w)
    assert kept() == 0  # what is stale goes when it is found


def test_gone_with_the_weight():
    use, x, w = operands()
    warm(use, x, w)
    assert kept() > 0
    del w
    gc.collect()
    assert kept() == 0


def test_what_packs_goes_with_the_other_caches():
    """Programs meet layouts without end: what is known of each of them must not stay."""
    use, x, w = operands()
    warm(use, x, w)
    assert weight_cache._forms
    clear_caches()
    assert not weight_cache._forms
    check(use, x, w)


def test_fresh_operands_are_not_kept():
    use, x, w = operands()
    for _ in range(6):
        use(x, w + 1)
    assert kept() == 0


def test_empty_cache_and_never():
    use, x, w = operands()
    warm(use, x, w)
    empty_cache()
    assert kept() == 0
    warm(use, x, w)
    assert kept() > 0
    for most in ("never", 0):
        torch.set_weight_cache(most)
        assert torch.get_weight_cache() == most
        warm(use, x, w)
        assert kept() == 0
    for wrong in ("sometimes", -1, True, 1.5, None):
        with pytest.raises(ValueError, match="set_weight_cache"):
            torch.set_weight_cache(wrong)


def test_the_least_recently_used_go_first():
    use, x, _ = operands()
    weights = [torch.randn(OUT, IN) for _ in range(4)]
    warm(use, x, weights[0])
    size = kept()
    torch.set_weight_cache(2 * size)
    for w in weights[:2]:
        warm(use, x, w)
    assert kept() == 2 * size

    def held():
        return [i for i, w in enumerate(weights) if any(k() is w._storage for k in weight_cache._kept.values())]

    assert held() == [0, 1]
    use(x, weights[0])
    warm(use, x, weights[2])
    assert held() == [0, 2]
    for _ in range(5):  # a net that doesn't fit keeps a part
        for w in weights:
            use(x, w)
    assert held() == [0, 2]
    for w in weights:
        check(use, x, w)
    assert kept() <= 2 * size


def test_what_is_stale_makes_room():
    use, x, w = operands()
    other = torch.randn(OUT, IN)
    warm(use, x, w)
    torch.set_weight_cache(kept() or w.nbytes)
    warm(use, x, w)
    w.add_(1)
    use(x, other)
    warm(use, x, other)
    assert any(k() is other._storage for k in weight_cache._kept.values())


def test_given_back_when_there_is_no_memory():
    """In a process that may have so much and no more."""
    program = """
import resource
import flambeau as torch
from flambeau.core.tensor.storage import memory_statistics
from flambeau.nn import functional as F
from flambeau.codegen.runtime.launch import empty_cache
torch.set_num_threads(1)
torch.empty(60 << 20, dtype=torch.uint8).fill_(1)  # its kernel is there from now on: the compiler takes memory, too
empty_cache()
with torch.no_grad():
    x, weights = torch.randn(64, 512), [torch.randn(4096, 512) for _ in range(8)]
    wanted = [F.linear(x, w) for w in weights]
    for w in weights:
        F.linear(x, w)
    assert memory_statistics()["weight_cache_bytes"] >= 8 << 23
    torch.equal(wanted[0], wanted[1])
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), resource.RLIM_INFINITY))
    large = torch.empty(60 << 20, dtype=torch.uint8)
    large.fill_(1)
    assert memory_statistics()["weight_cache_bytes"] == 0
    for y, w in zip(wanted, weights):
        assert torch.equal(F.linear(x, w), y)
    assert memory_statistics()["weight_cache_bytes"] < 5 << 23
    before = memory_statistics()["weight_cache_bytes"]
    assert before > 0
    try:
        torch.empty(1 << 45)
    except RuntimeError as error:
        assert "can't allocate" in str(error), error
    else:
        raise AssertionError
    assert memory_statistics()["weight_cache_bytes"] == before  # it would be of no use
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr


def test_recorded_programs():
    """A replay's writes are seen; a program that was recorded while a weight was kept reads the weight."""
    from flambeau.codegen.programs.entry import record

    use, x, w = operands()
    _, write = record(lambda w: w.add_(1), w)
    warm(use, x, w)
    _, read = record(use, x, w)
    assert kept() > 0
    write(w)
    assert torch.equal(read(x, w)[0], fresh(use, x, w))
    check(use, x, w)
    write = record(lambda: w.data.add_(1) is None)[1]  # nothing refers to the alias any more
    warm(use, x, w)
    assert kept() > 0
    before = w.clone()
    write()
    assert not torch.equal(w, before)
    check(use, x, w)


def test_other_numbers_of_threads():
    use, x, w = operands()
    wanted = use(x, w)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for _ in range(3):
                assert torch.equal(use(x, w), wanted)
    finally:
        torch.set_num_threads(before)

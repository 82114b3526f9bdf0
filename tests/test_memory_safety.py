"""What a program may do wrong from Python must not read or write outside a buffer, nor end the process.

Three instruments: arrays that end (or begin) at a page that can't be touched, so that a kernel that runs over its operands
is a signal; attacks, each in a forked child; and graphs too deep for any recursion.
"""

import ctypes
import gc
import mmap
import os
import signal
import sys
import threading

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.targets import lowered

nn, F = torch.nn, torch.nn.functional
SIZES = [1, 2, 3, 7, 16, 17, 33, 65, 129, 1025]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork") or sys.platform != "linux", reason="needs fork and mprotect")


def survives(work):
    """Run `work` in a child process; fail on a signal or an exception."""
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # ends what hangs, not what is slow on a busy machine
        try:
            work()
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert not os.WIFSIGNALED(status), f"signal {os.WTERMSIG(status)}"
    assert os.WEXITSTATUS(status) == 0


# ---------------------------------------------------------------- guarded memory


def guarded(shape, dtype=np.float32, front=False, fill=None):
    """A tensor that ends (front: begins) where the page that follows (precedes) can't be touched."""
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    page = mmap.PAGESIZE
    pages = -(-nbytes // page) or 1
    base = library.mmap(None, (pages + 2) * page, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANON, -1, 0)
    last = base + (pages + 1) * page
    library.mprotect(base, page, 0)
    library.mprotect(last, page, 0)
    memory = (ctypes.c_char * nbytes).from_address(base + page if front else last - nbytes)
    array = np.frombuffer(memory, dtype).reshape(shape)
    random = np.random.default_rng(nbytes)
    array[...] = random.integers(1, 4, shape) if fill is None else fill
    return torch.from_numpy(array)


def elementwise(g):
    for n in SIZES:
        for dtype in (np.float32, np.float64, np.int64, np.int8, np.float16):
            a, b = g((n,), dtype), g((n,), dtype)
            torch.add(a, b, out=g((n,), dtype))
            a.clone(), a.double(), a.bool(), a > b, a.mul_(2), torch.where(a > b, a, b), a.float().exp()
        a, c = g((n,)), g((3, n))
        a.uniform_(), a.normal_(), a.erf(), a.tanh(), F.dropout(a, 0.5), c.t() + 1, c + a, c[:, ::2].exp(), c.t().contiguous()


def reductions(g):
    for n in SIZES:
        a = g((3, n))
        for name in ("sum", "mean", "amax", "prod", "var", "logsumexp", "argmax", "cumsum", "softmax", "any", "median"):
            getattr(a, name)(0), getattr(a, name)(1)
        a.sum(), a.max(1), a.norm(), a.sort(1), a.sort(0), a.topk(1, 1), a.unique(), a.nonzero(), a.cummax(1)
        x, w, b = g((3, n)).requires_grad_(), g((n,)).requires_grad_(), g((n,)).requires_grad_()
        F.layer_norm(x, (n,), w, b).sum().backward()
        F.batch_norm(x, g((n,)), g((n,)), w, b, True).sum().backward()
        F.cross_entropy(x, g((3,), np.int64, fill=n - 1), g((n,))).backward()


def products(g):
    for m, k, n in ((1, 1, 1), (5, 7, 9), (17, 31, 47), (33, 65, 97), (130, 67, 63), (1, 1001, 33), (513, 3, 1)):
        a = g((m, k))
        a @ g((k, n)), a @ g((n, k)).t(), g((k, m)).t() @ g((k, n)), F.linear(a, g((n, k)), g((n,))), a @ g((k,))
        torch.bmm(g((2, m, k)), g((2, k, n))), a.double() @ g((k, n), np.float64)
    q, k = g((2, 2, 17, 9)), g((2, 2, 33, 9))
    F.scaled_dot_product_attention(q, k, k, attn_mask=g((17, 33)))


def windows(g):
    for channels, out, k, stride, pad in ((1, 1, 1, 1, 0), (3, 5, 3, 2, 1), (16, 33, 2, 1, 1), (17, 16, 3, 1, 0)):
        x, w, b = g((2, channels, 9, 11)).requires_grad_(), g((out, channels, k, k)).requires_grad_(), g((out,))
        made = F.conv2d(x, w, b, stride, pad)
        made.backward(g(tuple(made.shape)))
    for h, w, k, stride, pad in ((5, 7, 2, 2, 0), (9, 9, 3, 2, 1), (33, 31, 5, 3, 2)):
        x = g((2, 3, h, w)).requires_grad_()
        F.max_pool2d(x, k, stride, pad).sum().backward()
        F.avg_pool2d(x, k, stride, pad, ceil_mode=True).sum().backward()
        F.adaptive_avg_pool2d(x, (3, 5)), F.interpolate(x, size=(h + 3, 2 * w), mode="bicubic"), F.unfold(x, 2)
        F.grid_sample(x, g((2, 5, 7, 2)), padding_mode="reflection").sum().backward()


def places(g):
    for n in SIZES:
        a, i, j = g((n, 3)), g((5,), np.int64, fill=n - 1), g((n, 3), np.int64, fill=n - 1)
        a[i], a.index_select(0, i), a.gather(0, j), a.scatter(0, j, a), a.scatter_add(0, j, a), a.index_add(0, i, g((5, 3)))
        a.index_put((i,), g((5, 3)), accumulate=True), a.take(i), a.masked_select(a > 1), a[a > 1], F.embedding(i, a)
        torch.cat([a, a], 1), torch.stack([a, a], 2), F.pad(a, (1, 2)), a.repeat(2, 3), a.flip(1), a.roll(1, 0), a.tril()


def steps(g):
    for n in SIZES:
        for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop):
            p = g((n,)).requires_grad_()
            p.grad = g((n,))
            optimizer = kind([p], lr=0.1)
            optimizer.step()
            nn.utils.clip_grad_norm_([p], 1.0)


def quantized_weights(g):
    for m, k, n in ((1, 32, 16), (3, 96, 16), (5, 64, 48), (1, 1024, 16), (60, 96, 16)):
        codes, scales = g((n, k // 2), np.uint8), g((k // 32, n, 2))
        torch._weight_int4pack_mm_for_cpu(g((m, k)), codes, 32, scales)
        torch._weight_int4pack_mm_for_cpu(g((m, k), np.float16), codes, 32, g((k // 32, n, 2), np.float16))
    for m, k, n in ((1, 1, 1), (2, 7, 5), (4, 17, 3), (7, 33, 9), (60, 3, 5)):
        torch._weight_int8pack_mm(g((m, k)), g((n, k), np.int8), g((n,)))


@pytest.mark.parametrize("work", [elementwise, reductions, products, windows, places, steps, quantized_weights])
def test_guarded(work):
    def both():
        for front in (False, True):
            work(lambda shape, dtype=np.float32, fill=None, front=front: guarded(shape, dtype, front, fill))

    survives(both)


# ---------------------------------------------------------------- attacks

HUGE = [1 << 40, -(1 << 40), (1 << 63) - 1, -(1 << 63), 5, -6]


def attempt(*calls):
    for call in calls:
        try:
            call()
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, AssertionError, AttributeError):
            pass


def bad_indices():
    one = torch.ones(1)
    for value in HUGE:
        i = torch.tensor([value])
        x = torch.ones(5)
        attempt(
            lambda: x[i],
            lambda: x.index_select(0, i),
            lambda: x.gather(0, i),
            lambda: x.scatter(0, i, 1.0),
            lambda: x.scatter_add(0, i, one),
            lambda: x.scatter_reduce(0, i, one, "amax"),
            lambda: x.index_add(0, i, one),
            lambda: x.index_copy(0, i, one),
            lambda: x.index_fill(0, i, 1.0),
            lambda: x.index_put((i,), one, accumulate=True),
            lambda: x.take(i),
            lambda: x.put_(i, one),
            lambda: F.embedding(i, torch.ones(3, 4)),
            lambda: F.one_hot(i, 3),
            lambda: F.embedding_bag(i, torch.ones(3, 4), i * 0),
            lambda: F.embedding_bag(i * 0, torch.ones(3, 4), i),
            lambda: F.cross_entropy(torch.ones(1, 3), i),
            lambda: F.nll_loss(torch.ones(1, 3), i),
            lambda: F.multi_margin_loss(torch.ones(1, 3), i),
            lambda: F.max_unpool1d(torch.ones(1, 1, 1), i[None, None], 2),
            lambda: F.ctc_loss(torch.randn(5, 1, 3), i[None], torch.tensor([5]), torch.tensor([1])),
        )
        assert x.sum() >= 5


def bad_geometry():
    for value in HUGE:
        x = torch.ones(5)
        attempt(
            lambda: x.as_strided((2,), (value,)).sum(),
            lambda: x.as_strided((2,), (1,), value).sum(),
            lambda: x.as_strided((value,), (1,)).sum(),
            lambda: x.set_(torch.ones(5), value, (2,), (1,)).sum(),
            lambda: x.set_(x.untyped_storage(), 0, (2,), (value,)).sum(),
            lambda: x.narrow(0, value, 2).sum(),
            lambda: x.unfold(0, 2, value).sum(),
            lambda: x.expand(value, 5)[0].sum(),
            lambda: F.pad(x, (value, 0)).shape,
            lambda: torch.zeros(value, value),
            lambda: torch.empty_strided((2,), (value,)),
            lambda: x.resize_(value),
        )


def shrunk_while_saved():
    weight = nn.Parameter(torch.ones(300, 300))
    for use in (lambda w: torch.ones(2, 300) @ w, lambda w: w.softmax(1) * w, lambda w: w.max(1)[0], lambda w: w.cumprod(1)):
        for smaller in (torch.empty(0), torch.ones(1, 1), torch.ones(1, 300), torch.ones(300, 300, device="meta")):
            weight.data = torch.ones(300, 300)
            made = use(weight).sum()
            weight.data = smaller
            weight.grad = None
            attempt(made.backward)


def saved_tensors_of_other_shapes():
    """Operands whose memory and shape are swapped between the forward and the backward pass, each in turn."""
    targets = torch.tensor([1, 2, 3, 0, 1, 2])
    for use, *shapes in (
        (lambda a, b: F.conv2d(a, b), (2, 3, 7, 7), (4, 3, 1, 1)),
        (lambda a, b: F.conv2d(a, b, padding=1), (2, 3, 7, 7), (4, 3, 3, 3)),
        (lambda a, b, c: F.conv_transpose2d(a, b, c, 2), (2, 3, 7, 7), (3, 4, 3, 3), (4,)),
        (lambda a, b: F.cross_entropy(a, targets, b.detach()), (6, 8), (8,)),
        (lambda a, b: F.nll_loss(a, targets, b.detach()), (6, 8), (8,)),
        (lambda a, b, c: F.scaled_dot_product_attention(a, b, c), (1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)),
        (
            lambda a, b, c, d: F.scaled_dot_product_attention(a, b, c, d.detach()),
            (1, 2, 3, 4),
            (1, 2, 5, 4),
            (1, 2, 5, 4),
            (3, 5),
        ),
        (lambda a, b: F.linear(a, b), (6, 8), (5, 8)),
        (lambda a, b, c: F.layer_norm(a, (8,), b, c), (6, 8), (8,), (8,)),
    ):
        for which, base in enumerate(shapes):
            for other in ((1,) * len(base), base[:-1] + (1,), (1, *base[1:]), base[:-1] + (50 * base[-1],), (3,), (0,), ()):
                for dtype in (np.float32, np.float16):
                    operands = [guarded(shape).requires_grad_() for shape in shapes]
                    made = use(*operands).sum()
                    operands[which].data = guarded(other, dtype)
                    attempt(made.backward)


def masks_that_do_not_fit():
    q, k = guarded((1, 2, 3, 4)), guarded((1, 2, 5, 4))
    for shape in ((3, 4), (2, 5), (1, 2, 3, 4), (3, 2, 3, 5), (4,)):
        for dtype in (np.float32, np.bool_):
            with pytest.raises(RuntimeError):
                F.scaled_dot_product_attention(q, k, k, attn_mask=guarded(shape, dtype))


def shrunk_before_a_step():
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad):
        p = guarded((8192,)).requires_grad_()
        p.grad = guarded((8192,))
        optimizer = kind([p], lr=0.1)
        optimizer.step()
        p.grad.data = guarded((4,))
        attempt(optimizer.step)
        p.grad.data = guarded((8192,))
        for value in optimizer.state[p].values():
            if value.ndim:
                value.data = guarded((4,))
        attempt(optimizer.step)


def without_data():
    meta, real = torch.ones(3, 3, device="meta"), torch.ones(3, 3)
    vector = torch.ones(3, device="meta")
    for call in (
        lambda: F.linear(real, real, vector),
        lambda: F.layer_norm(real, (3,), vector),
        lambda: real.copy_(meta),
        lambda: F.cross_entropy(real, vector.long()),
        lambda: torch.linalg.solve(real, meta),
        lambda: F.batch_norm(real, vector, torch.ones(3)),
    ):
        with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
            call()


def not_a_tensor():
    class Pretender:
        _layout, _node, _storage, _offset = torch.ones(3)._layout, None, 5, 0

    with pytest.raises((TypeError, AttributeError)):
        torch.add(torch.ones(3), 1, out=Pretender())


def places_overwritten_before_backward():
    """Indices that a graph keeps, overwritten through `.data`, which no version check sees."""
    image, volume, table = (1, 1, 4, 4), (1, 1, 4, 4, 4), (5, 4)

    def pooled(pool, shape, *arguments, **keywords):
        w = guarded(shape).requires_grad_()
        made, places = pool(w, *arguments, return_indices=True, **keywords)
        return made, places

    def looked_up(use, count=5):
        w, places = guarded(table).requires_grad_(), guarded((2,), np.int64, fill=count - 1)
        return use(w, places), places

    makers = [
        lambda: pooled(F.max_pool2d, image, 2),
        lambda: pooled(F.max_pool2d, image, 3, 1, 1),
        lambda: pooled(F.max_pool3d, volume, 2),
        lambda: pooled(F.adaptive_max_pool2d, image, 2),
        lambda: pooled(F.fractional_max_pool2d, image, 2, output_size=2),
        lambda: looked_up(lambda w, i: F.embedding(i, w)),
        lambda: looked_up(lambda w, i: w[i]),
        lambda: looked_up(lambda w, i: w.index_select(0, i)),
        lambda: looked_up(lambda w, i: w.gather(0, i[:, None])),
        lambda: looked_up(lambda w, i: w.take(i)),
        lambda: looked_up(lambda w, i: F.cross_entropy(w[:2], i), 4),
        lambda: looked_up(lambda w, i: F.embedding_bag(i, w, i * 0)),
        lambda: looked_up(lambda w, i: torch.zeros(9, 4).index_add(0, i, w[:2])),
        lambda: looked_up(lambda w, i: torch.zeros(9, 4).scatter(0, i[:, None], w)),
    ]
    for maker in makers:
        for value in [*HUGE, 16, 64]:
            made, places = maker()
            places.data.fill_(value)
            attempt(made.sum().backward)


def test_places_outside_the_plane_are_refused():
    w = torch.ones(1, 1, 4, 4, requires_grad=True)
    made, places = F.max_pool2d(w, 2, return_indices=True)
    places.data.fill_(16)
    with pytest.raises(RuntimeError, match="index 16 is out of bounds"):
        made.sum().backward()
    assert w.grad is None


def geometry_of_other_types():
    x = torch.ones(5)
    for wrong in (1.5, "a", None, object(), float("nan"), 1 << 70):
        attempt(
            lambda: x.set_(torch.ones(5), wrong, (2,), (1,)),
            lambda: x.set_(x.untyped_storage(), 0, (wrong,), (1,)),
            lambda: x.set_(x.untyped_storage(), 0, (2,), (wrong,)),
            lambda: x.as_strided((2,), (1,), wrong),
            lambda: x.as_strided((wrong,), (1,)),
            lambda: x.resize_(wrong),
            lambda: x.narrow(0, wrong, 1),
        )
        assert x.sum() == 5


def sizes_beyond_memory():
    """What prepares tables before it allocates its result must notice in time, not fill the memory with tables."""
    image = torch.ones(1, 1, 5, 5)
    for value in (1 << 40, (1 << 63) - 1):
        for call in (
            lambda: F.adaptive_avg_pool2d(image, value),
            lambda: F.adaptive_max_pool2d(image, (value, 2)),
            lambda: F.interpolate(image, size=(3, value)),
            lambda: F.interpolate(image, scale_factor=float(value)),
            lambda: F.local_response_norm(image, value),
            lambda: torch.ones(5).tensor_split(value),
            lambda: torch.ones(2).repeat_interleave(torch.tensor([1, value])),
        ):
            with pytest.raises(RuntimeError):
                call()
    with pytest.raises(RuntimeError, match="without overflow"):
        F.interpolate(image, scale_factor=float("inf"))


def numbers_that_give_tensors_other_memory():
    """A number converted by a class's own code, which swaps the memory of the operand beside it."""

    class Swap(np.float32):
        def __float__(self):
            for tensor in operands:
                tensor.set_(torch.ones(1))
            return 3.0

    for use in (
        lambda x: F.layer_norm(x, x.shape, eps=Swap(1)),
        lambda x: F.group_norm(x.view(1, 2, -1), 2, eps=Swap(1)),
        lambda x: F.batch_norm(x.view(2, -1), None, None, training=True, eps=Swap(1)),
        lambda x: x.add_(Swap(2)),
        lambda x: torch.add(x, x, alpha=Swap(2)),
        lambda x: F.softplus(x, Swap(1)),
        lambda x: x.clamp_(Swap(1), Swap(2)),
        lambda x: x.norm(Swap(3)),
        lambda x: x.uniform_(Swap(1), Swap(2)),
        lambda x: x.fill_(Swap(1)),
    ):
        for _ in range(2):  # the second call finds the plan
            operands = [torch.ones(20_000_000)]  # given back to the system when it is freed
            attempt(lambda use=use: use(operands[0]))


@pytest.mark.parametrize(
    "attack",
    [
        bad_indices,
        bad_geometry,
        shrunk_while_saved,
        shrunk_before_a_step,
        without_data,
        not_a_tensor,
        saved_tensors_of_other_shapes,
        masks_that_do_not_fit,
        places_overwritten_before_backward,
        geometry_of_other_types,
        sizes_beyond_memory,
        numbers_that_give_tensors_other_memory,
    ],
)
def test_attack(attack):
    survives(attack)


# ---------------------------------------------------------------- depth, threads, interruption


def chain(step, length=100_000):
    x = torch.ones(2, requires_grad=True)
    y = x
    for _ in range(length):
        y = step(y)
    return x, y


@pytest.mark.parametrize("step", [lambda y: y + 1, lambda y: torch.sin(y), lambda y: y.view(2)], ids=["add", "sin", "view"])
def test_a_deep_graph(step):
    def work():
        x, y = chain(step)
        y.sum().backward()
        assert x.grad.isfinite().all()
        x, y = chain(step)
        del y  # frees 100,000 nodes, on the C stack if each freed the next
        gc.collect()

    survives(work)


def test_memory_swapped_by_another_thread():
    def work():
        weight, done = torch.ones(1200, 1200), []

        def swap():
            while not done:
                weight.data = torch.ones(1200, 1200)

        thread = threading.Thread(target=swap)
        thread.start()
        for _ in range(4):
            assert (weight @ weight)[0, 0] == 1200
        done.append(True)
        thread.join()

    survives(work)


def test_written_memory_swapped_by_another_thread():
    """Memory taken from a tensor while a kernel writes to it is nobody else's until the kernel is done."""

    def work():
        target, done = torch.ones(4_000_000), []

        def swap():
            while not done:
                target.data = torch.ones(4_000_000)
                assert torch.ones(4_000_000).max() == 1

        failures = []
        threading.excepthook = failures.append
        thread = threading.Thread(target=swap)
        thread.start()
        for _ in range(300):
            target.fill_(2.0)
        done.append(True)
        thread.join()
        assert not failures

    survives(work)


def test_a_tensor_given_less_memory_between_the_choice_of_a_plan_and_its_call():
    """What another thread may do there, done by hand: the plan for a large tensor meets the memory of a small one."""
    from flambeau.codegen.builder import kernel, module
    from flambeau.codegen.jit import kernel_of_text

    def work():
        large, small = torch.ones(1 << 20), torch.ones(4)
        f = kernel()
        with f.loop(f["begin"], f["end"]) as i:
            f.store(f.load("float", f.buffer(1), i), f.buffer(0), i)
        phase = Phase(kernel_of_text(module(f)), 1 << 20, 1 << 16, [])
        run = lowered(Plan([phase], [large._layout], [large._layout]))
        assert run(None, large).sum().item() == 1 << 20
        for operands in ((None, small), (small, large), (None, large[4:])):
            with pytest.raises(RuntimeError, match="a tensor reaches outside its storage"):
                run(*operands)
        assert small.tolist() == [1.0] * 4

    survives(work)


def test_memory_taken_away_by_another_thread():
    def work():
        x, small, big = torch.ones(1 << 16), torch.ones(2), torch.ones(1 << 16)
        done = threading.Event()

        def change():
            while not done.is_set():
                x.data = small
                x.data = big

        sys.setswitchinterval(1e-6)
        other = threading.Thread(target=change)
        other.start()
        for _ in range(2000):
            for call in (lambda: x + 1, lambda: x.sum(), lambda: x.sort(), lambda: x.mul_(1)):
                try:
                    call()
                except RuntimeError as error:  # the words depend on when the memory went away
                    assert "reaches outside its storage" in str(error) or "broadcast" in str(error)
        done.set()
        other.join()

    survives(work)


def test_backward_in_many_threads():
    def work():
        weight, failures = torch.ones(100, 100, requires_grad=True), []

        def run():
            try:
                for _ in range(10):
                    (torch.ones(20, 100) @ weight).relu().sum().backward()
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=run) for _ in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not failures

    survives(work)


def test_plans_and_numbers_of_threads():
    def work():
        x = torch.ones(700, 700)
        for count in (1, 2, 5, 1, 64, 2):
            torch.set_num_threads(count)
            assert (x @ x)[3, 3] == 700
            assert (x + x).sum() == 980_000

    survives(work)

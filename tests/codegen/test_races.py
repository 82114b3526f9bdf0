"""What threads, forks, signals and destructors do to each other: each test in a process of its own, which must end well."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork") or sys.platform != "linux", reason="needs fork")
HEAD = """
import faulthandler, itertools, os, random, signal, sys, threading, time
import flambeau as torch
F = torch.nn.functional
faulthandler.dump_traceback_later(500, exit=True)
random.seed(0)

def together(*works, seconds=1.0, allowed=(RuntimeError,)):
    # every work again and again, each on a thread of its own
    ends, errors = time.monotonic() + seconds, []
    def run(work):
        while time.monotonic() < ends:
            try:
                work()
            except allowed:
                pass
            except BaseException as error:
                errors.append(repr(error))
                return
    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not errors, errors

def forked(work, others=None):
    # others: an event that threads of this process wait for; they rest while the child is at work
    child = os.fork()
    if others is not None and child:
        others.clear()
    if not child:
        signal.alarm(300)
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    if others is not None:
        others.set()
"""


def run(program: str, **environment: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **environment},
    )
    assert answer.returncode == 0, f"{answer.returncode} {answer.stdout[-500:]} {answer.stderr[-3000:]}"


def test_more_threads_than_there_can_be():
    run(
        """
        assert torch.get_num_threads() == 5000
        x = torch.ones(3_000_000)
        assert (x + 1).sum() == 6_000_000
        torch.set_num_threads(300)
        assert (x + 2).sum() == 9_000_000 and torch.get_num_threads() == 300
        assert (torch.ones(300, 300) @ torch.ones(300, 300)).sum() == 300 ** 3
        """,
        OMP_NUM_THREADS="5000",
    )


def test_the_number_of_threads_changes_while_others_compute():
    run("""
        c, b, x = torch.randn(40, 40, 40), torch.randn(100, 1000), torch.ones(300, 300)
        def check(): assert (x @ x)[3, 3] == 300
        together(lambda: torch.set_num_threads(random.choice([1, 2, 3, 8, 64, 200])), lambda: torch.linalg.svd(c),
                 lambda: torch.linalg.eigh(c + c.mT), lambda: torch.fft.fft2(c), lambda: b.sort(1), lambda: b.topk(5), check,
                 lambda: F.conv2d(c[None], c[:, :, :3, None].permute(2, 0, 1, 3)[:, :, :3]), seconds=1.5)
        """)


def test_a_handler_changes_the_number_of_threads_in_the_middle_of_a_plan():
    run("""
        def handler(*_): torch.set_num_threads(random.choice([1, 2, 3, 8, 64]))
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 2e-4, 2e-4)
        for n in range(20, 40):
            c, twos = torch.eye(n).expand(9, n, n) * 2, torch.full((9, n), 2.)
            assert torch.linalg.svd(c)[1].allclose(twos) and torch.linalg.eigh(c)[0].allclose(twos)
        signal.setitimer(signal.ITIMER_REAL, 0)
        """)


def test_numbers_of_threads_belong_to_threads():
    run("""
        torch.set_num_threads(2)
        seen, first, second = [], threading.Event(), threading.Event()
        def other():
            seen.append(torch.get_num_threads()); first.set(); second.wait(); seen.append(torch.get_num_threads())
            torch.set_num_threads(7)
        thread = threading.Thread(target=other)
        thread.start(); first.wait(); torch.set_num_threads(3); second.set(); thread.join()
        assert seen == [2, 2] and torch.get_num_threads() == 3
        """)


def test_forks_while_others_compile_load_and_launch():
    run("""
        os.environ["FLAMBEAU_CACHE"] = "0"
        going = threading.Event()
        going.set()
        stop, dtypes = [], [torch.float64, torch.int8, torch.float16, torch.int32, torch.bool]
        def compile(k):
            i = 0
            while not stop:
                going.wait()
                i += 1
                x = torch.ones(*[2] * (i % 5 + 1), dtype=dtypes[(i + k) % 5])
                x.to([torch.float32, torch.complex64][i % 2]).sum().mul(2 + i)
        def shapes(k):
            for i in itertools.count(k * 10**7):
                going.wait()
                if stop: return
                torch.empty(1, 0, i)
        def load():
            import importlib
            for room in ("distributions", "sparse", "hub", "profiler", "special"):  # few: a fork waits for what is being loaded
                importlib.import_module("flambeau." + room)
        big = torch.ones(400, 400)
        def launch():
            while not stop: going.wait(); big @ big
        threads = [threading.Thread(target=work, args=args) for work, args in
                   ((compile, (0,)), (compile, (1,)), (shapes, (1,)), (launch, ()), (load, ()))]
        for thread in threads: thread.start()
        def child():
            x = torch.arange(2. + i).log1p().view(1, -1)
            F.softmax(x, 1); (x.t() @ x).tril().sum().item(); torch.empty(i + 1, 0, 77)
            import flambeau.distributions, flambeau.hub
            assert (torch.ones(300, 300) @ torch.ones(300, 300)).sum() == 300 ** 3
        for i in range(8):
            time.sleep(random.random() / 5)  # in the middle of something
            forked(child, going)
        stop.append(1)
        for thread in threads: thread.join()
        """)


def test_destructors_and_handlers_that_compute():
    run("""
        numbers, busy, kept = itertools.count(1), [], []
        class Loop:
            def __init__(self): self.me = self
            def __del__(self): torch.empty(next(numbers), 2); kept.append(torch.zeros(2, 2) + 3)
        def handler(*_):
            if not busy: busy.append(1); torch.empty(next(numbers), 7); kept.append(torch.zeros(2, 2) + 3); busy.clear()
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
        a = torch.full((2, 2), 2.)
        for i in range(8000):
            Loop(); torch.empty(3, i + 1)
            assert torch.cumsum(a, 0).tolist() == [[2, 2], [4, 4]]
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert kept and all(k.tolist() == [[3, 3], [3, 3]] for k in kept)
        """)


def test_threads_offer_results_of_their_own():
    run("""
        sys.setswitchinterval(1e-6)
        def work(k):
            a, out = torch.full((4,), float(k)), torch.zeros(4)
            def once():
                torch.cumsum(a, 0, out=out)
                assert out.tolist() == [k, 2. * k, 3. * k, 4. * k]
            return once
        together(*map(work, range(1, 5)), allowed=())
        """)


def test_memory_is_taken_away_while_it_is_read():
    run("""
        sys.setswitchinterval(1e-6)
        x = torch.ones(20_000)
        def item():
            if x.numel() == 1: x.item()
        def data(): x.data = torch.ones(random.choice([1, 3, 20_000]))
        together(lambda: x.resize_(random.choice([0, 1, 5, 1000, 20_000, 40_000])), data, item, lambda: repr(x),
                 lambda: x.tolist(), lambda: x.numpy().sum(), lambda: x + 1, lambda: x.sum().item(), lambda: x[-1].item(),
                 lambda: x.untyped_storage().resize_(random.choice([4, 400, 80_000])), lambda: x.clone(),
                 lambda: x.sort(), seconds=1.5, allowed=(RuntimeError, IndexError, ValueError))
        """)


def test_masks_are_resized_while_they_are_read():
    """What is counted and what is written are of one layout, or the call is refused."""
    run("""
        sys.setswitchinterval(1e-6)
        x, source = torch.ones(20_000), torch.ones(20_000)
        mask, numbers = x.bool(), x.long()
        def resize():
            for x in random.sample(everything, 2): x.resize_(random.choice([1, 1000, 20_000, 400_000]))
        everything = [x, mask, source, numbers]
        together(resize, resize, lambda: mask.nonzero(), lambda: mask[mask], lambda: x[x > 0], lambda: x.masked_select(mask),
                 lambda: x.masked_scatter_(mask, source), lambda: x.masked_scatter(mask, source), lambda: torch.where(mask),
                 lambda: numbers.unique(return_counts=True), lambda: x.repeat_interleave(numbers),
                 seconds=2.5, allowed=(RuntimeError, IndexError, ValueError))
        """)


def test_what_a_thread_leaves_open_ends_with_it():
    run("""
        from flambeau.core.modes import modes
        from flambeau.core.autograd import mutation_guard
        def leave():
            for mode in torch.inference_mode(), torch.autocast("cpu"), mutation_guard.guarded(()): mode.__enter__()
            torch.ones(2) + 1
        for _ in range(300):
            thread = threading.Thread(target=leave); thread.start(); thread.join()
        found = []
        def use():
            w = torch.ones(3, requires_grad=True)
            (w * torch.ones(3)).sum().backward()
            found.append(torch.ones(2).is_inference())
        for _ in range(10):
            thread = threading.Thread(target=use); thread.start(); thread.join()
        assert found == [False] * 10 and not modes.active
        """)


def test_control_c_ends_an_operator_and_leaves_all_usable():
    run(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)
        long, matrix, small = torch.rand(4_000_000), torch.ones(1500, 1500), torch.ones(3)
        weight, n = torch.rand(700, 700, requires_grad=True), itertools.count(1)
        def alone():
            torch.set_num_threads(1); matrix @ matrix
        works = [lambda: long.sort(), lambda: matrix @ matrix, lambda: (small * 2).pow(next(n) % 50).double().sum(0).exp(),
                 lambda: (weight @ weight).relu().sum().backward(), lambda: F.conv2d(long.view(1, 4, 1000, 1000), kernel), alone]
        kernel, sent = torch.rand(8, 4, 5, 5), []
        def interrupt():
            time.sleep(0.3); sent.append(time.process_time()); os.kill(os.getpid(), signal.SIGINT)
        for work in works:
            threading.Thread(target=interrupt).start()
            try:
                work()  # CPython 3.11 takes what a jump to a try block's first instruction raises for raised before the block
                while True: work()
            except KeyboardInterrupt:
                assert time.process_time() - sent[-1] < 5
            assert (torch.ones(300, 300) @ torch.ones(300, 300)).sum() == 300 ** 3
            assert torch.rand(100_000).sort()[0].diff().min() >= 0
        """,
        FLAMBEAU_CACHE="0",
    )


def test_a_handler_that_forks_in_the_middle_of_an_operator():
    run("""
        ends = []
        def handler(*_):
            child = os.fork()
            if child: ends.append(child)
        signal.signal(signal.SIGALRM, handler)
        x, parent = torch.ones(3000, 3000), os.getpid()
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        while not ends and os.getpid() == parent:
            try:
                y = x @ x
                assert y.min() == 3000
            except RuntimeError as error:
                assert "forked" in str(error) and os.getpid() != parent
        assert (torch.ones(400, 400) @ torch.ones(400, 400)).sum() == 400 ** 3
        if os.getpid() != parent: os._exit(0)
        assert os.waitpid(ends[0], 0)[1] == 0
        """)


def test_the_first_calls_of_many_threads():
    run(
        """
        ready = threading.Barrier(8)
        def work():
            ready.wait()
            x = torch.linspace(0, 1, 50, dtype=torch.float64).reshape(5, 10)
            found.append((x.softmax(1).cumsum(0).sort(1, descending=True)[0].sum().item(), torch.fft.fft(x).abs().sum().item(),
                          torch.distributions.Normal(0., 1.).log_prob(x).sum().item(), torch.linalg.svd(x)[1].sum().item()))
        found = []
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert len(found) == 8 and len(set(found)) == 1
        """,
        FLAMBEAU_CACHE="0",
    )

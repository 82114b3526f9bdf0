"""The thread pool: native threads parked in a compiled loop, fed chunks of an index range.

Every thread has a contiguous share of the range, the same one for every job of that size, so that it finds in its caches what it
wrote there before; when its own share is done it takes chunks of the others'.

A worker spins a little on the job number, then sleeps on a condition variable. A job is open while its range has chunks left:
the caller takes chunks too, closes the job when none is left, and waits only for workers that had joined it, so that a worker
slow to wake never delays anybody. The pool is remade in a forked child.
"""

from __future__ import annotations

import ctypes
import os

from flambeau.codegen import cpu
from flambeau.codegen.builder import Function, Value
from flambeau.codegen.runtime import state

SPINS = 3000


def _word(f: Function, s: Value, index: int) -> Value:
    return f.at("i64", s, index)


def _atomic_load(f: Function, pointer: Value) -> Value:
    return f.emit("i64", f"load atomic i64, ptr {pointer.name} seq_cst, align 8")


def _atomic_store(f: Function, value: int, pointer: Value) -> None:
    f.line(f"store atomic i64 {value}, ptr {pointer.name} seq_cst, align 8")


def _atomic_add(f: Function, pointer: Value, amount) -> Value:
    amount = f.i64(amount)
    return f.emit("i64", f"atomicrmw add ptr {pointer.name}, i64 {amount.name} seq_cst")


def _pause(f: Function) -> None:
    """Tell the processor that this is a loop that waits."""
    if cpu.ARM:
        f.call("void", "llvm.aarch64.hint", f.value(1, "i32"))  # yield
    else:
        f.call("void", "llvm.x86.sse2.pause")


def _share(f: Function, s: Value, thread: Value) -> Value:
    """Where a thread's share of the job is described: the next index to take, and the end."""
    return f.at("i64", s, thread * state.SHARE_WORDS + state.SHARES)


def work_function() -> Function:
    """void fb_work(state, thread): take chunks of the current job, of this thread's share first, until none is left."""
    f = Function("fb_work", [("state", "ptr"), ("thread", "i64")])
    s = f["state"]
    kernel = f.load("ptr", s, state.JOB_KERNEL)
    parameters = f.load("ptr", s, state.JOB_PARAMETERS)
    grain, shares = f.load("i64", s, state.JOB_GRAIN), f.load("i64", s, state.JOB_SHARES)
    begin = f.variable("i64")
    # a thread without a share keeps out: kernels have working memory for as many threads as there are shares
    rounds = f.select(f["thread"] < shares, shares, f.i64(0))
    with f.loop(0, rounds) as k:
        share = _share(f, s, (f["thread"] + k).unsigned_rem(shares))
        end = f.load("i64", share, 1)

        def take(share: Value = share, end: Value = end) -> Value:
            begin.set(_atomic_add(f, share, grain))
            return begin.get() < end
        with f.repeat(take):
            first = begin.get()
            f.call_pointer("void", kernel, parameters, first, f.minimum(first + grain, end), f["thread"])
    return f


def worker_function() -> Function:
    """void fb_worker(argument): a worker's life; argument points at (state address, thread number)."""
    f = Function("fb_worker", [("argument", "ptr")], "ptr")
    s = f.pointer(f.load("i64", f["argument"], 0))
    thread = f.load("i64", f["argument"], 1)
    sequence, active, is_open = (_word(f, s, i) for i in (state.SEQUENCE, state.ACTIVE, state.OPEN))
    mutex, condition, sleepers = (_word(f, s, i) for i in (state.MUTEX, state.CONDITION, state.SLEEPERS))
    seen = f.variable("i64", 0)
    spins = f.variable("i64", 0)
    forever = Value(f, "i1", "true")
    with f.repeat(lambda: forever):
        spins.set(0)

        def idle() -> Value:
            same = _atomic_load(f, sequence).equals(seen.get())
            return f.select(same, spins.get() < SPINS, f.value(0, "i1"))
        with f.repeat(idle):
            _pause(f)
            spins.add(1)
        with f.when(_atomic_load(f, sequence).equals(seen.get())):
            f.call("i32", "pthread_mutex_lock", mutex)
            _atomic_add(f, sleepers, 1)
            with f.repeat(lambda: _atomic_load(f, sequence).equals(seen.get())):
                f.call("i32", "pthread_cond_wait", condition, mutex)
            _atomic_add(f, sleepers, -1)
            f.call("i32", "pthread_mutex_unlock", mutex)
        seen.set(_atomic_load(f, sequence))
        with f.when(thread < f.load("i64", s, state.THREADS)):
            _atomic_add(f, active, 1)
            with f.when(_atomic_load(f, is_open).differs(0)):
                f.call("void", "fb_work", s, thread, declare=False)
            _atomic_add(f, active, -1)
    f.ret(f["argument"])
    return f


def _deal_out(f: Function, s: Value, total: Value, grain: Value) -> None:
    """Emit: give every thread its share, whole chunks as evenly as they go."""
    chunks = (total + grain - 1).unsigned_div(grain)
    shares = f.minimum(f.load("i64", s, state.THREADS), chunks)
    f.store(shares, s, state.JOB_SHARES)
    with f.loop(0, shares) as thread:
        share = _share(f, s, thread)
        first, end = ((chunks * t).unsigned_div(shares) * grain for t in (thread, thread + 1))
        f.store(first, share, 0)
        f.store(f.minimum(end, total), share, 1)


def parallel_function() -> Function:
    """void fb_parallel(state, kernel, parameters, total, grain): run a kernel over [0, total) on all threads."""
    f = Function("fb_parallel", [("state", "ptr"), ("kernel", "ptr"), ("parameters", "ptr"), ("total", "i64"), ("grain", "i64")])
    s = f["state"]
    busy = _word(f, s, state.BUSY)
    was_busy = f.emit("i64", f"atomicrmw xchg ptr {busy.name}, i64 1 seq_cst")
    alone = f.load("i64", s, state.WORKERS).equals(0)
    with f.branches(f.select(was_busy.differs(0), f.value(1, "i1"), alone)) as otherwise:
        # another Python thread has the pool (or there is none): this one does its work by itself
        f.call_pointer("void", f["kernel"], f["parameters"], f.i64(0), f["total"], f.i64(0))
        with f.when(was_busy.equals(0)):
            _atomic_store(f, 0, busy)
        otherwise()
        f.store(f["kernel"], s, state.JOB_KERNEL)
        f.store(f["parameters"], s, state.JOB_PARAMETERS)
        f.store(f["grain"], s, state.JOB_GRAIN)
        _deal_out(f, s, f["total"], f["grain"])
        _atomic_store(f, 1, _word(f, s, state.OPEN))
        _atomic_add(f, _word(f, s, state.SEQUENCE), 1)
        with f.when(_atomic_load(f, _word(f, s, state.SLEEPERS)).differs(0)):
            f.call("i32", "pthread_mutex_lock", _word(f, s, state.MUTEX))
            f.call("i32", "pthread_cond_broadcast", _word(f, s, state.CONDITION))
            f.call("i32", "pthread_mutex_unlock", _word(f, s, state.MUTEX))
        f.call("void", "fb_work", s, f.i64(0), declare=False)
        _atomic_store(f, 0, _word(f, s, state.OPEN))
        with f.repeat(lambda: _atomic_load(f, _word(f, s, state.ACTIVE)).differs(0)):
            _pause(f)
        _atomic_store(f, 0, busy)
    return f


def functions() -> list[Function]:
    return [work_function(), worker_function(), parallel_function()]


class Pool:
    """Starts workers on demand and remembers how many threads kernels may use."""

    def __init__(self, worker: int):
        self.worker = worker
        self.library = ctypes.CDLL(None)
        self._initialise()
        state.words[state.THREADS] = self.default()
        os.register_at_fork(after_in_child=self._initialise)

    @staticmethod
    def default() -> int:
        chosen = os.environ.get("OMP_NUM_THREADS", "")
        return max(1, int(chosen) if chosen.isdigit() else len(os.sched_getaffinity(0)))

    def _initialise(self) -> None:
        for i in (state.WORKERS, state.OPEN, state.ACTIVE, state.SLEEPERS, state.BUSY):
            state.words[i] = 0
        address = state.ADDRESS
        self.library.pthread_mutex_init(ctypes.c_void_p(address + 8 * state.MUTEX), None)
        self.library.pthread_cond_init(ctypes.c_void_p(address + 8 * state.CONDITION), None)

    def ensure(self) -> None:
        """Start the workers that the chosen number of threads needs (called when a plan with parallel phases is made)."""
        wanted = min(state.words[state.THREADS] - 1, state.MAX_WORKERS)
        while state.words[state.WORKERS] < wanted:
            number = state.words[state.WORKERS] + 1
            at = state.WORKER_ARGUMENTS + 2 * number
            state.words[at], state.words[at + 1] = state.ADDRESS, number
            handle = ctypes.c_ulong()
            failed = self.library.pthread_create(ctypes.byref(handle), None, ctypes.c_void_p(self.worker),
                                                 ctypes.c_void_p(state.ADDRESS + 8 * at))
            if failed:
                return
            self.library.pthread_detach(handle)
            state.words[state.WORKERS] = number

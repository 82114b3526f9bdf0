"""The thread pool: native threads parked in a compiled loop, fed chunks of an index range.

Every thread has a contiguous share of the range, the same one for every job of that size, so that it finds in its caches what it
wrote there before; when its own share is done it takes chunks of the others'.

A worker spins a little on the job number, then sleeps on a condition variable. A job is open while its range has chunks left:
the caller takes chunks too, closes the job when none is left, and waits only for workers that had joined it, so that a worker
slow to wake never delays anybody. The pool is remade in a forked child.

How many threads a job has is said by who gives it: a plan keeps the number that its working memory was measured for
(`planned_threads`), whatever is chosen for later ones.

While Python's main thread is in a long job, it looks between chunks, and while it waits for the others, whether a signal waits
for its handler (`watch_function`); if that raises, the job ends with the chunks that are under way. Kernels whose chunks may be
long look in the middle of them (`Function.stretches`), on whatever thread they run.
"""

from __future__ import annotations

import ctypes
import os
import threading

from flambeau.codegen import cpu
from flambeau.codegen.builder import Function, Value
from flambeau.codegen.runtime import state

SPINS = 3000
MOST_THREADS = state.MAX_WORKERS + 1  # that a job can have
# A watch: the address of fb_watch, which kernels call, when to look again (0: not yet set), the caller's thread state, the state,
# how many forks it saw, and whether the job is to end.
WATCH_WORDS, WATCH_TIME, WATCH_THREAD, WATCH_STATE, WATCH_FORKS, WATCH_ENDED = 6, 1, 2, 3, 4, 5
WATCH_EVERY = 100_000_000  # nanoseconds
CLOCK_MONOTONIC_COARSE = 6


class _Number(threading.local):
    """How many threads this thread's operators use; it begins with what was chosen last."""

    def __init__(self) -> None:
        self.chosen = _latest
        self.planned = min(_latest, MOST_THREADS)


def _default() -> int:
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isascii() and asked.isdigit() and 0 < int(asked) < 1 << 31:
        return int(asked)
    return len(os.sched_getaffinity(0))


_latest = _default()
_number = _Number()


def planned_threads() -> int:
    """The number of threads that plans made now by this thread are laid out for: at most as many as there can be."""
    return _number.planned


def get_threads() -> int:
    """The number that this thread, or where it hasn't chosen any thread before its first operator, has chosen."""
    return _number.chosen


def set_threads(n: int, raises: bool = True) -> None:
    """Choose a number for this thread and for those to come; not raises: plans have no more threads than before."""
    global _latest
    _latest = _number.chosen = n
    most = MOST_THREADS if raises else _number.planned
    _number.planned = min(n, most)


def _word(f: Function, s: Value, index: int) -> Value:
    return f.at("i64", s, index)


def _atomic_load(f: Function, pointer: Value) -> Value:
    return f.emit("i64", f"load atomic i64, ptr {pointer.name} seq_cst, align 8")


def _atomic_store(f: Function, value: int | Value, pointer: Value) -> None:
    f.line(f"store atomic i64 {f.i64(value).name}, ptr {pointer.name} seq_cst, align 8")


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


def watch_function() -> Function:
    """i64 fb_watch(watch, thread): not 0 if the job is to end: a signal's handler has raised, or a handler forked and this is the
    child.

    Now and then the job's thread 0, which is Python's main one, takes the interpreter's lock and has handlers of signals called.
    """
    f = Function("fb_watch", [("watch", "ptr"), ("thread", "i64")], "i64")
    watch = f["watch"]
    time = f.stack("i64", 2)

    def now() -> Value:
        f.call("i32", "clock_gettime", f.value(CLOCK_MONOTONIC_COARSE, "i32"), time)
        return f.load("i64", time, 0) * 1_000_000_000 + f.load("i64", time, 1)

    with f.when(f.load("i64", watch, WATCH_ENDED).differs(0)):
        f.ret(f.i64(1))
    with f.when(f["thread"].differs(0)):
        f.ret(f.i64(0))
    current, due = now(), f.load("i64", watch, WATCH_TIME)
    with f.when(due.equals(0)):
        f.store(current + WATCH_EVERY, watch, WATCH_TIME)
        f.ret(f.i64(0))
    with f.when(current < due):
        f.ret(f.i64(0))
    s = f.pointer(f.load("i64", watch, WATCH_STATE))
    f.call("void", "PyEval_RestoreThread", f.pointer(f.load("i64", watch, WATCH_THREAD)))
    failed = f.convert(f.call("i32", "PyErr_CheckSignals"), "i64", "sext").differs(0)
    forked = f.load("i64", s, state.FORKS).differs(f.load("i64", watch, WATCH_FORKS))
    with f.when(forked):
        with f.when(f.convert(failed, "i64", "zext").equals(0)):  # the workers' part of the job stays undone here
            f.call("void", "PyErr_SetObject", f.load("ptr", s, state.RUNTIME_ERROR), f.load("ptr", s, state.FORK_WORDS))
    f.store(f.convert(failed | forked, "i64", "zext"), watch, WATCH_ENDED)
    f.call("ptr", "PyEval_SaveThread")
    f.store(now() + WATCH_EVERY, watch, WATCH_TIME)
    f.ret(f.load("i64", watch, WATCH_ENDED))
    return f


def _ended(f: Function, watch: Value) -> Value:
    """Emit: look, as the caller of the job; whether it is to end."""
    return f.call("i64", "fb_watch", watch, f.i64(0), declare=False).differs(0)


def work_function() -> Function:
    """void fb_work(state, thread, watch): take chunks of the current job, of this thread's share first, until none is left.

    watch: null, or the caller's, which may end the job: then every share is at its end.
    """
    f = Function("fb_work", [("state", "ptr"), ("thread", "i64"), ("watch", "ptr")])
    s, watch = f["state"], f["watch"]
    kernel = f.load("ptr", s, state.JOB_KERNEL)
    parameters = f.load("ptr", s, state.JOB_PARAMETERS)
    grain, shares = f.load("i64", s, state.JOB_GRAIN), f.load("i64", s, state.JOB_SHARES)
    watched = f.address(watch).differs(0)
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
            with f.when(watched):
                with f.when(_ended(f, watch)):
                    with f.loop(0, shares) as other:
                        rest = _share(f, s, other)
                        _atomic_store(f, f.load("i64", rest, 1), rest)
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
        with f.when(thread < f.load("i64", s, state.JOB_SHARES)):  # a glance: who has joined looks again
            _atomic_add(f, active, 1)
            with f.when(_atomic_load(f, is_open).differs(0)):
                f.call("void", "fb_work", s, thread, f.pointer(f.i64(0)), declare=False)
            _atomic_add(f, active, -1)
    f.ret(f["argument"])
    return f


def start_workers_function() -> Function:
    """start_workers(number): have so many workers, or as many as the system gives. It keeps the interpreter's lock, so that no
    two workers get one thread number."""
    f = Function("fb_start_workers", [("self", "ptr"), ("number", "ptr")], "ptr")
    s = f.pointer(f.call("i64", "PyLong_AsLongLong", f["self"]))
    wanted = f.minimum(f.call("i64", "PyLong_AsLongLong", f["number"]), state.MAX_WORKERS)
    handle = f.stack("i64", 1)
    none = f.load("ptr", s, state.NONE)
    with f.repeat(lambda: f.load("i64", s, state.WORKERS) < wanted):
        number = f.load("i64", s, state.WORKERS) + 1
        argument = f.at("i64", s, number * 2 + state.WORKER_ARGUMENTS)
        f.store(f.address(s), argument, 0)
        f.store(number, argument, 1)
        failed = f.call("i32", "pthread_create", handle, f.pointer(f.i64(0)), f.load("ptr", s, state.WORKER), argument)
        with f.when(failed.differs(0)):
            f.call("void", "Py_IncRef", none)
            f.ret(none)
        f.call("i32", "pthread_detach", f.load("i64", handle))
        f.store(number, s, state.WORKERS)
    f.call("void", "Py_IncRef", none)
    f.ret(none)
    return f


def _deal_out(f: Function, s: Value, total: Value, grain: Value, threads: Value) -> None:
    """Emit: give every thread its share, whole chunks as evenly as they go."""
    chunks = (total + grain - 1).unsigned_div(grain)
    shares = f.minimum(threads, chunks)
    f.store(shares, s, state.JOB_SHARES)
    with f.loop(0, shares) as thread:
        share = _share(f, s, thread)
        first, end = ((chunks * t).unsigned_div(shares) * grain for t in (thread, thread + 1))
        f.store(first, share, 0)
        f.store(f.minimum(end, total), share, 1)


def _alone(f: Function) -> None:
    """Emit: the caller does the whole job, chunk by chunk if it is watched."""
    total, watch = f["total"], f["watch"]
    with f.branches(f.address(watch).equals(0)) as otherwise:
        f.call_pointer("void", f["kernel"], f["parameters"], f.i64(0), total, f.i64(0))
        otherwise()
        begin = f.variable("i64", 0)
        with f.repeat(lambda: begin.get() < total):
            first = begin.get()
            end = f.minimum(first + f["grain"], total)
            f.call_pointer("void", f["kernel"], f["parameters"], first, end, f.i64(0))
            begin.set(end)
            with f.when(_ended(f, watch)):
                begin.set(total)


def parallel_function() -> Function:
    """void fb_parallel(state, kernel, parameters, total, grain, threads, watch): run a kernel over [0, total) on so many threads.

    watch: null, or where it is told that the job is to end before its time.
    """
    f = Function(
        "fb_parallel",
        [
            ("state", "ptr"),
            ("kernel", "ptr"),
            ("parameters", "ptr"),
            ("total", "i64"),
            ("grain", "i64"),
            ("threads", "i64"),
            ("watch", "ptr"),
        ],
    )
    s = f["state"]
    with f.when((f["threads"] <= 1) | f.load("i64", s, state.WORKERS).equals(0)):
        _alone(f)
        f.ret()
    busy = _word(f, s, state.BUSY)
    was_busy = f.emit("i64", f"atomicrmw xchg ptr {busy.name}, i64 1 seq_cst")
    with f.when(was_busy.differs(0)):  # another Python thread has the pool: this one does its work by itself
        _alone(f)
        f.ret()
    f.store(f["kernel"], s, state.JOB_KERNEL)
    f.store(f["parameters"], s, state.JOB_PARAMETERS)
    f.store(f["grain"], s, state.JOB_GRAIN)
    _deal_out(f, s, f["total"], f["grain"], f["threads"])
    _atomic_store(f, 1, _word(f, s, state.OPEN))
    _atomic_add(f, _word(f, s, state.SEQUENCE), 1)
    with f.when(_atomic_load(f, _word(f, s, state.SLEEPERS)).differs(0)):
        f.call("i32", "pthread_mutex_lock", _word(f, s, state.MUTEX))
        f.call("i32", "pthread_cond_broadcast", _word(f, s, state.CONDITION))
        f.call("i32", "pthread_mutex_unlock", _word(f, s, state.MUTEX))
    f.call("void", "fb_work", s, f.i64(0), f["watch"], declare=False)
    _atomic_store(f, 0, _word(f, s, state.OPEN))
    watched = f.address(f["watch"]).differs(0)
    with f.repeat(lambda: _atomic_load(f, _word(f, s, state.ACTIVE)).differs(0)):
        _pause(f)
        with f.when(watched):
            _ended(f, f["watch"])
    _atomic_store(f, 0, busy)
    return f


def functions() -> list[Function]:
    return [watch_function(), work_function(), worker_function(), start_workers_function(), parallel_function()]


def initialise(worker: int, watch: int) -> None:
    """Make the pool; worker, watch: the addresses of fb_worker and fb_watch."""
    state.words[state.WORKER], state.words[state.WATCH] = worker, watch
    state.words[state.MAIN_THREAD] = threading.main_thread().ident or 0
    _empty_pool()
    os.register_at_fork(after_in_child=_in_child)


def _empty_pool() -> None:
    """Set the pool up without workers: in a new process, and in a forked child, which has none of its parent's threads."""
    for i in (state.WORKERS, state.OPEN, state.ACTIVE, state.SLEEPERS, state.BUSY):
        state.words[i] = 0
    library = ctypes.CDLL(None)
    library.pthread_mutex_init(ctypes.c_void_p(state.ADDRESS + 8 * state.MUTEX), None)
    library.pthread_cond_init(ctypes.c_void_p(state.ADDRESS + 8 * state.CONDITION), None)


def _in_child() -> None:
    state.words[state.FORKS] += 1
    state.words[state.MAIN_THREAD] = threading.get_ident()
    _empty_pool()

"""The words that the native runtime shares: one block of i64, its address known to every plan and every storage.

memory.py, threads.py, objects.py and launcher.py name the words they use here, so that two of them never mean different things
by one number.
"""

from __future__ import annotations

import ctypes

WORDS = 4608
_raw = ctypes.create_string_buffer(WORDS * 8 + 64)
ADDRESS = (ctypes.addressof(_raw) + 63) // 64 * 64
words = (ctypes.c_int64 * WORDS).from_address(ADDRESS)

# the Tensor class and where its slots lie in an object (bytes), written by launch.bind
TENSOR_TYPE, SLOT_STORAGE, SLOT_OFFSET, SLOT_LAYOUT, SLOT_NODE, SLOT_INDEX, SLOT_BASE = range(7)
STORAGE_TYPE, NONE, ZERO, CHECK_ERROR = 7, 8, 9, 10
# the allocator
ALLOCATED, ALLOCATED_PEAK, CACHED, CACHE_LIMIT, ALLOCATIONS, HUGE_PAGES = 11, 12, 13, 14, 15, 16
INFERENCE = 19  # how many threads are in inference mode
RUNTIME_ERROR, NO_MEMORY_WORDS, META_WORDS, TYPE_ERROR = 20, 21, 22, 23  # the exceptions and the texts that the launcher raises
WRITE_WORDS, SAVE_WORDS, OUTSIDE_WORDS = 24, 25, 30
EPOCH, GUARD, GUARDED, CAPTURED_ERROR = 26, 27, 28, 29  # see memory.guard_function; GUARDED: how many threads are in GUARDS
DONATED = 31  # a tuple: a tensor that a result may be written to, and the state of the thread that offers it
RUNNING = 36  # how many launches hold addresses of memory while Python may run
WRITING = 48  # how many of them write to memory that was there before
GIVE_BACK = 49  # what is called with a number of bytes that there is no memory for, and gives some back; or 0
SLOT_CREATION = 40  # a slot more: what marks a view that must not be written to in a graph
SLOT_TENSOR_CLASS = 41  # where a Layout names the class of the tensors that are made with it
TRUE, FALSE = 43, 44
# for codegen.programs: the recorder of launches or 0; how many memories were named, and how many launches failed so far
TAPE, SERIAL, FAILURES = 45, 46, 47
SPECIAL, SPECIAL_EVERYWHERE = 39, 42  # how many threads are in special modes, and how many such modes concern all threads
FREE_LISTS = 256  # one word per size class
INFERENCE_THREADS, MAX_INFERENCE_THREADS = 512, 500  # their thread states
# the thread pool; words that two threads write are a cache line apart
WORKERS, WORKER = 17, 18  # how many there are, and the address of the function that they run
MAIN_THREAD, FORKS, FORK_WORDS = 33, 34, 35  # Python's main thread as the system calls it; how often this process was forked
WATCH = 37  # the address of fb_watch
MATERIALIZE = 38  # what gives a storage that is copied on write memory of its own, before it is written to
SEQUENCE, OPEN, ACTIVE, JOB, SLEEPERS, MUTEX, CONDITION, BUSY = 64, 72, 80, 96, 104, 112, 128, 144
JOB_KERNEL, JOB_PARAMETERS, JOB_GRAIN, JOB_SHARES = JOB, JOB + 1, JOB + 2, JOB + 3
WORKER_ARGUMENTS = 1024  # two words a worker: state address, thread number
MAX_WORKERS = 255
GUARDS, MAX_GUARDED = 1540, 250  # two words each: a thread's state, and the epoch of the memory that it may write to
SHARES, SHARE_WORDS = 2048, 8  # by thread: its share of the job
SPECIAL_THREADS, MAX_SPECIAL_THREADS = 4096, 500  # their thread states

"""LLVM IR text to callable addresses: memory cache, then disk cache, then LLVM.

The address of a kernel that has to be compiled comes later: who asks for the number waits for it, so that the kernels of a plan
are compiled at the same time. Stands on llvm.py, images/image.py and cache.py. Everything that runs comes from its disk cache or
its compiler.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import SupportsIndex

from flambeau.base.flags import flags
from flambeau.codegen.images import cache
from flambeau.codegen.images.image import Image, map_image
from flambeau.codegen.images.link import link
from flambeau.codegen.llvm import EXPLICIT, Pipeline, Translation

Address = SupportsIndex     # of machine code, which may be still to come
Functions = dict[str, int]  # addresses by name

_modules: dict[str, Functions | _Compilation] = {}      # by what stands for a text: itself, or its description
_writers: list[Callable[[], str]] = []
_lock = threading.RLock()
statistics = {"compiled": 0, "loaded": 0, "compile_seconds": 0.0, "load_seconds": 0.0}


def compile_module(text: str, pipeline: Pipeline = EXPLICIT) -> Functions:
    """Addresses of the functions that `text` defines (external linkage)."""
    module = _module(text, lambda: text, pipeline)
    return module.functions() if isinstance(module, _Compilation) else module


def compile_kernel(text: str, name: str = "kernel", pipeline: Pipeline = EXPLICIT) -> Address:
    """Address of the kernel `name` that `text` defines."""
    module = _module(text, lambda: text, pipeline)
    return _Awaited(module, name) if isinstance(module, _Compilation) else module[name]


def compile_described(description: str, write: Callable[[], str], pipeline: Pipeline = EXPLICIT) -> Address:
    """Address of the kernel that `write` gives the text of, if it is not in the disk cache under its description.

    description: all that the text depends on but the sources of `base`, `ir` and `codegen`.
    """
    module = _module(f"{cache.sources()}\n{description}", write, pipeline)
    return _Awaited(module, "kernel") if isinstance(module, _Compilation) else module["kernel"]


def _module(identity: str, write: Callable[[], str], pipeline: Pipeline) -> Functions | _Compilation:
    """The functions in the text that `write` gives; `identity` stands for it in the caches."""
    found = _modules.get(identity)
    if found is not None:
        return found
    with _lock:
        if identity not in _modules:
            _modules[identity] = _from_disk(identity, pipeline) or _Compilation(identity, write(), pipeline)
            _writers.append(write)
        return _modules[identity]


def _from_disk(identity: str, pipeline: Pipeline) -> Functions | None:
    start = time.perf_counter()
    image: Image | None = cache.read(cache.key_of(identity, str(pipeline)))
    if image is None or flags.debug >= 4:
        return None
    statistics["loaded"] += 1
    statistics["load_seconds"] += time.perf_counter() - start
    return map_image(image)


class _Compilation:
    """The functions of a text that LLVM translates on a thread of its own, while Python writes the next one."""

    def __init__(self, identity: str, text: str, pipeline: Pipeline) -> None:
        if flags.debug >= 4:
            print(text)
        start = time.perf_counter()
        self._identity, self._pipeline, self._translation = identity, pipeline, Translation(text, pipeline)
        self._made: bytes | BaseException | None = None
        self._functions: Functions = {}
        self._seconds = time.perf_counter() - start
        self._thread: threading.Thread | None = threading.Thread(target=self._translate, name="flambeau compiler")
        try:
            self._thread.start()
        except RuntimeError:        # no more threads, or Python is ending
            self._thread = None
            self._translate()
        if flags.debug >= 2:        # what it prints stays in order
            self.functions()

    def _translate(self) -> None:
        start = time.perf_counter()
        try:
            self._made = self._translation.emit()
        except BaseException as error:
            self._made = error
        self._seconds += time.perf_counter() - start

    def join(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join()

    def functions(self) -> Functions:
        """Their addresses, once they are there."""
        self.join()
        with _lock:
            if isinstance(self._made, BaseException):
                _modules.pop(self._identity, None)
                raise self._made
            if self._made is not None:
                self._keep(self._made)
                self._made = None
            return self._functions

    def _keep(self, made: bytes) -> None:
        """Link an object file and put it into the caches."""
        start = time.perf_counter()
        image = link(made)
        cache.write(cache.key_of(self._identity, str(self._pipeline)), image)
        self._functions = _modules[self._identity] = map_image(image)
        self._seconds += time.perf_counter() - start
        statistics["compiled"] += 1
        statistics["compile_seconds"] += self._seconds
        if flags.debug >= 2:
            print(f"compiled {list(image.functions)} by {self._pipeline} in {self._seconds * 1e3:.1f} ms")


class _Awaited:
    """The address of a function whose text is being compiled."""

    def __init__(self, compilation: _Compilation, name: str) -> None:
        self._compilation, self._name = compilation, name

    def __index__(self) -> int:
        return self._compilation.functions()[self._name]


def _finish() -> None:
    """Wait for what is being compiled: a process forked meanwhile would never see it end."""
    for module in list(_modules.values()):
        if isinstance(module, _Compilation):
            module.join()


os.register_at_fork(before=_finish)


def loaded() -> int:
    """How many modules this process has loaded."""
    return len(_writers)


def texts_since(count: int) -> list[str]:
    """The LLVM texts of the modules loaded after the first `count`."""
    return [write() for write in _writers[count:]]

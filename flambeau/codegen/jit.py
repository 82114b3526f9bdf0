"""LLVM IR text to callable addresses: memory cache, then disk cache, then LLVM.

The address of a kernel that isn't there yet comes later: its text is written when a plan that runs it is made (`begin`), and who
asks for the number waits for it, so that the kernels of a plan are compiled at the same time; what is planned on the meta device,
and never run, compiles nothing. No lock is held over any of it: what several threads make at the same time, the first one to
enter it into the table has made. Stands on llvm.py, images/image.py and cache.py. Everything that runs comes from its disk cache
or its compiler.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache as remembered
from functools import partial, wraps
from types import FunctionType
from typing import Any, ParamSpec, SupportsIndex

from flambeau.base.dtype import dtype as DType
from flambeau.base.flags import flags
from flambeau.base.naming import PACKAGE
from flambeau.codegen.llvm import EXPLICIT, Pipeline, Translation, working
from flambeau.codegen.object_cache import cache
from flambeau.codegen.object_cache.image import Image, map_image
from flambeau.codegen.object_cache.link import link
from flambeau.codegen.partition import halves

Address = SupportsIndex     # of machine code, which may be still to come
Functions = dict[str, int]  # addresses by name
P = ParamSpec("P")

_modules: dict[str, Functions | _Compilation] = {}      # by what stands for a text: itself, or its description
_writers: list[Callable[[], str]] = []
statistics = {"compiled": 0, "loaded": 0, "compile_seconds": 0.0, "load_seconds": 0.0}


def compile_kernel(text: str, name: str = "kernel", pipeline: Pipeline = EXPLICIT) -> Address:
    """Address of the kernel `name` that `text` defines."""
    return _Awaited(text, lambda: text, pipeline, name).if_known()


def compile_described(description: str, write: Callable[[], str], pipeline: Pipeline = EXPLICIT) -> Address:
    """Address of the kernel that `write` gives the text of, if it is not in the disk cache under its description.

    description: all that the text depends on but the sources of `base`, `ir` and `codegen`.
    """
    return _Awaited(f"{cache.sources()}\n{description}", write, pipeline).if_known()


def compiled(pipeline: Pipeline = EXPLICIT, name: str = "kernel") -> Callable[[Callable[P, str]], Callable[P, Address]]:
    """Decorate a function that writes a kernel's text, which follows from its arguments, the processor and the compiler's
    sources: it then gives the kernel's address. The text is not written if the kernel is in the disk cache.
    """
    def decorate(write: Callable[P, str]) -> Callable[P, Address]:
        return _once(write, lambda *args, **named: _awaited(partial(write, *args, **named), pipeline, name).if_known())
    return decorate


def compiled_module(pipeline: Pipeline = EXPLICIT) -> Callable[[Callable[P, str]], Callable[P, Addresses]]:
    """The same for a text of several functions, whose addresses are given by name."""
    def decorate(write: Callable[P, str]) -> Callable[P, Addresses]:
        return _once(write, lambda *args, **named: Addresses(_awaited(partial(write, *args, **named), pipeline, "")))
    return decorate


def begin(addresses: Iterable[Address]) -> None:
    """Have the kernels compiled whose addresses are asked for next."""
    for address in addresses:
        if address.__class__ is _Awaited:
            address.begin()     # type: ignore[attr-defined]


def _once(write: Callable, make: Callable) -> Any:
    """What `make` gives for arguments of `write`, made when they are first given."""
    return wraps(write)(remembered(make))


def _awaited(write: partial[str], pipeline: Pipeline, name: str) -> _Awaited:
    words = _words((write.func, write.args, *write.keywords.items()))
    if words is None:
        text = write()
        return _Awaited(text, lambda: text, pipeline, name)
    return _Awaited(f"{cache.sources()}\n{words}", write, pipeline, name)


def _words(value: Any) -> str | None:
    """What tells a value from all others, in this process and the next; None if it has something that can't be told so."""
    if value is None or value.__class__ in (bool, int, float, str):
        return repr(value)
    if isinstance(value, DType):
        return f"dtype {value.name}"
    if isinstance(value, tuple):
        parts = [_words(part) for part in value]
        return None if None in parts else f"{value.__class__.__qualname__}({', '.join(parts)})"  # type: ignore[arg-type]
    if isinstance(value, FunctionType) and value.__closure__ is None and value.__module__.startswith(_SOURCES):
        return None if "<lambda>" in value.__qualname__ else f"{value.__module__.partition('.')[2]}.{value.__qualname__}"
    return None


_SOURCES = tuple(f"{PACKAGE}.{room}." for room in cache.ROOMS)


class _Awaited:
    """The address of a function in the text that `write` gives, which somebody may have to wait for.

    If its compilation fails or is interrupted, it is tried again when the address is asked for again.
    """

    def __init__(self, identity: str, write: Callable[[], str], pipeline: Pipeline, name: str = "kernel") -> None:
        self._given, self._name = (identity, write, pipeline), name

    def if_known(self) -> Address:
        """The address as a number, if it is there."""
        module = _modules.get(self._given[0])
        return self if module is None or isinstance(module, _Compilation) else module[self._name]

    def begin(self) -> Functions | _Compilation:
        """Have it compiled, unless it is there."""
        return _module(*self._given, self._name)

    def named(self, name: str) -> _Awaited:
        """Another function in the same text."""
        return _Awaited(*self._given, name)

    def functions(self) -> Functions:
        """The addresses of all functions in the text."""
        module = self.begin()
        return module.functions() if isinstance(module, _Compilation) else module

    def __index__(self) -> int:
        return self.functions()[self._name]


class Addresses:
    """The addresses of the functions in one text, by name."""

    def __init__(self, module: _Awaited) -> None:
        self._of = module

    def __getitem__(self, name: str) -> Address:
        return self._of.named(name).if_known()

    def numbers(self) -> Functions:
        """All of them, once they are there."""
        return self._of.functions()


def _module(identity: str, write: Callable[[], str], pipeline: Pipeline, name: str) -> Functions | _Compilation:
    """The functions in the text that `write` gives; `identity` stands for it in the caches. name: of one of them, or ""."""
    found = _modules.get(identity)
    if found is not None:
        return found
    key = cache.key_of(identity, str(pipeline))
    made: Functions | _Compilation | None = _from_disk(key, name)
    if made is None:
        _Compilation.start_idle()
        made = _Compilation(identity, key, write(), pipeline)
    found = _modules.setdefault(identity, made)
    if found is made:
        _writers.append(write)
        if isinstance(made, _Compilation):
            made.announce()
    return found


def _from_disk(key: str, name: str) -> Functions | None:
    start = time.perf_counter()
    image: Image | None = cache.read(key)
    if image is None or flags.debug >= 4 or (name and name not in image.functions):
        return None
    try:
        functions = map_image(image)
    except ImportError:     # it names what isn't there: if that is needed, compiling it will say so
        return None
    statistics["loaded"] += 1
    statistics["load_seconds"] += time.perf_counter() - start
    return functions


class _Compilation:
    """The functions of a text that LLVM translates: on a thread while the next one is written, or when it is asked for.

    Python's main thread has a thread translate that one, too, and waits: an interruption must not find it in the middle of LLVM.
    """

    _idle: list[_Compilation] = []          # what nobody translates yet

    def __init__(self, identity: str, key: str, text: str, pipeline: Pipeline) -> None:
        if flags.debug >= 4:
            print(text)
        self._identity, self._key, self._pipeline = identity, key, pipeline
        self._texts = [text] if pipeline.vectorise else halves(text)
        self._made: Functions | BaseException | None = None
        self._claim = threading.Lock()      # of who translates it
        self._done = threading.Event()

    def announce(self) -> None:
        """Have this translated when the next one is written, or when it is asked for."""
        self._idle.append(self)
        if flags.debug >= 2:        # what it prints stays in order
            self.functions()

    @classmethod
    def start_idle(cls) -> None:
        """Have threads translate what nobody does yet."""
        while (idle := cls._take_idle()) is not None:
            _on_a_thread(idle._translate)

    @classmethod
    def _take_idle(cls) -> _Compilation | None:
        try:
            return cls._idle.pop()
        except IndexError:
            return None

    def _translate(self) -> None:
        """Do it, unless somebody does."""
        with working.inside():
            if not self._claim.acquire(blocking=False):
                return
            try:
                start = time.perf_counter()
                objects = _at_the_same_time([partial(_object_of, text, self._pipeline) for text in self._texts])
                self._made = self._keep(objects, start)
            except BaseException as error:
                self._made = error
            finally:
                self._done.set()

    def functions(self) -> Functions:
        """Their addresses, once they are there."""
        if not self._done.is_set():
            for one in dict.fromkeys((self, self._take_idle())):
                if one is not None and not one._claim.locked():
                    if threading.current_thread() is threading.main_thread():
                        _on_a_thread(one._translate)
                    else:
                        one._translate()
            self._done.wait()
        made = self._made
        if isinstance(made, BaseException):
            if _modules.get(self._identity) is self:
                del _modules[self._identity]
            raise made
        assert made is not None
        return made

    def _keep(self, objects: list[bytes], start: float) -> Functions:
        """Link object files and put them into the caches."""
        image = link(*objects)
        cache.write(self._key, image)
        functions = _modules[self._identity] = map_image(image)
        seconds = time.perf_counter() - start
        statistics["compiled"] += 1
        statistics["compile_seconds"] += seconds
        if flags.debug >= 2:
            print(f"compiled {list(image.functions)} by {self._pipeline} in {seconds * 1e3:.1f} ms")
        return functions

    def forked(self) -> None:
        """In a forked child: a thread that it doesn't have may have been about to wait for this."""
        if not self._done.is_set():
            self._done = threading.Event()


def _object_of(text: str, pipeline: Pipeline) -> bytes:
    return Translation(text, pipeline).emit()


def _on_a_thread(work: Callable[[], None]) -> threading.Thread | None:
    """The thread that does this work; None if it is done already."""
    thread = threading.Thread(target=work, name="flambeau compiler")
    try:
        thread.start()
    except RuntimeError:        # no more threads, or Python is ending
        work()
        return None
    return thread


def _at_the_same_time(calls: Sequence[Callable[[], bytes]]) -> list[bytes]:
    """What calls give, of which all but the first run on threads of their own."""
    made: list[Any] = [None] * len(calls)

    def work(at: int) -> None:
        try:
            made[at] = calls[at]()
        except BaseException as error:
            made[at] = error
    others = [_on_a_thread(partial(work, at)) for at in range(1, len(calls))]
    work(0)
    for thread in others:
        if thread is not None:
            thread.join()
    for result in made:
        if isinstance(result, BaseException):
            raise result
    return made


def _in_child() -> None:
    for module in list(_modules.values()):
        if isinstance(module, _Compilation):
            module.forked()


os.register_at_fork(after_in_child=_in_child)


def loaded() -> int:
    """How many modules this process has loaded."""
    return len(_writers)


def texts_since(count: int) -> list[str]:
    """The LLVM texts of the modules loaded after the first `count`."""
    return [write() for write in _writers[count:]]

"""Kernels by name until they are wanted: a `KernelRef` is a function that writes LLVM text, and its arguments. Lowering one finds
its address: in the memory cache, then in the disk cache, then by LLVM.

The address of a kernel that has to be compiled comes later: who asks for the number waits for it, so that the kernels of a
plan are compiled at the same time. No lock is held over any of it: what several threads make at the same time, the first
one to enter it into the table has made. Stands on llvm.py, object_cache/image.py and cache.py. Everything that runs comes
from its disk cache or its compiler.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache as remembered
from functools import partial, wraps
from types import FunctionType
from typing import Any, ParamSpec, SupportsIndex

from flambeau.base.dtype import dtype as DType
from flambeau.base.flags import flags
from flambeau.base.naming import PACKAGE
from flambeau.codegen.builder import FLOATS, INTEGERS
from flambeau.codegen.llvm import EXPLICIT, Pipeline, Translation, working
from flambeau.codegen.object_cache import cache
from flambeau.codegen.object_cache.image import Image, map_image
from flambeau.codegen.object_cache.link import link
from flambeau.codegen.partition import halves

if flags.perf:  # here, since kernels may be mapped on a thread that this module's importer waits for
    from flambeau.codegen.object_cache import perf_map

Address = SupportsIndex  # of machine code, which may be still to come
Functions = dict[str, int]  # addresses by name
P = ParamSpec("P")

_modules: dict[str, Functions | _Compilation] = {}  # by what stands for a text: itself, or its description
_loaded: list[KernelRef] = []
statistics = {"compiled": 0, "loaded": 0, "compile_seconds": 0.0, "load_seconds": 0.0}


class KernelRef:
    """A kernel by name: `function(*arguments, **named)` writes the text in which it is the function `entry`.

    Nothing is written nor compiled before `begin` (which doesn't wait) or `int(ref)` (which does). If its compilation fails or is
    interrupted, it is tried again when the address is asked for again. The name is for people: kernels with the same text are
    compiled once, under the name of the first. single: it is the text's only kernel. describe: gives, of the same arguments, all
    that the text depends on but the sources of `base`, `ir` and `codegen`; without it, that is found from the arguments.
    """

    __slots__ = ("function", "arguments", "named", "pipeline", "entry", "single", "_describe", "_name", "_identity", "address")

    def __init__(
        self,
        function: Callable[..., str],
        arguments: tuple[Any, ...],
        pipeline: Pipeline = EXPLICIT,
        entry: str = "kernel",
        name: str = "",
        named: dict[str, Any] | None = None,
        single: bool = True,
        describe: Callable[..., str] | None = None,
    ) -> None:
        self.function, self.arguments, self.named = function, arguments, named or {}
        self.pipeline, self.entry, self.single = pipeline, entry, single
        self._name, self._describe = name, describe
        self._identity: str | None = None
        self.address: int | None = None  # once it is known

    @property
    def name(self) -> str:
        """What it computes, of which dtype: `softmax.float32.row`; or where its writer is: `products.pack.float32`."""
        if not self._name:
            self._name = _name_of(self.function, (*self.arguments, *self.named.values()))
        return self._name

    @property
    def symbol(self) -> str:
        """What the function is called in the text: by the kernel's name, unless others there have names."""
        return re.sub(r"[^\w.]", "_", self.name) if self.single else self.entry

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    def text(self) -> str:
        """The LLVM text, in which the kernel bears its name."""
        text = self.unnamed()
        return text.replace(f"@{self.entry}(", f"@{self.symbol}(") if self.single else text

    def unnamed(self) -> str:
        """The text as it is written, which is the same for all kernels that do the same."""
        return self.function(*self.arguments, **self.named)

    def begin(self) -> Address:
        """Its address, if it is there; else have it made, and return what knows it later."""
        if self.address is None:
            found = _module(self)
            if isinstance(found, _Compilation):
                return self
            self.address = found[self.entry]
        return self.address

    def functions(self) -> Functions:
        """The addresses of all functions of the text, once they are there."""
        found = _module(self)
        return found.functions() if isinstance(found, _Compilation) else found

    def __index__(self) -> int:
        if self.address is None:
            self.address = self.functions()[self.entry]
        return self.address

    def identity(self) -> str:
        """What stands for the text in the caches."""
        if self._identity is None:
            if self._describe is not None:
                words: str | None = self._describe(*self.arguments)
            else:
                words = _words((self.function, self.arguments, *self.named.items()))
            self._identity = self.unnamed() if words is None else f"{cache.sources()}\n{words}"
        return self._identity


def start() -> None:
    """Have all that is to be compiled, and that nobody waits for, compiled on threads."""
    _Compilation.start_idle()


class KernelModule:
    """Several kernels in one text, by name."""

    def __init__(self, text: KernelRef) -> None:
        self._text = text
        self._refs: dict[str, KernelRef] = {}

    def __getitem__(self, entry: str) -> KernelRef:
        ref = self._refs.get(entry)
        if ref is None:
            whole = self._text
            ref = self._refs[entry] = KernelRef(
                whole.function, whole.arguments, whole.pipeline, entry, f"{whole.name}.{entry}", whole.named, single=False
            )
        return ref

    def functions(self) -> Functions:
        """The addresses of all functions, once they are there."""
        return self._text.functions()


def kernel_of_text(text: str, name: str = "kernel", pipeline: Pipeline = EXPLICIT, entry: str = "kernel") -> KernelRef:
    """The kernel that `text` defines."""
    return KernelRef(str, (text,), pipeline, entry, name)


def compiled(pipeline: Pipeline = EXPLICIT, entry: str = "kernel") -> Callable[[Callable[P, str]], Callable[P, KernelRef]]:
    """Decorate a function that writes a kernel's text, which follows from its arguments, the processor and the compiler's
    sources: it then gives the kernel. The text is not written if the kernel is in the disk cache.
    """

    def decorate(write: Callable[P, str]) -> Callable[P, KernelRef]:
        return _once(write, lambda *arguments, **named: KernelRef(write, arguments, pipeline, entry, named=named))

    return decorate


def compiled_module(pipeline: Pipeline = EXPLICIT) -> Callable[[Callable[P, str]], Callable[P, KernelModule]]:
    """The same for a text of several functions, which are given by name."""

    def decorate(write: Callable[P, str]) -> Callable[P, KernelModule]:
        return _once(
            write, lambda *arguments, **named: KernelModule(KernelRef(write, arguments, pipeline, "", named=named, single=False))
        )

    return decorate


def _once(write: Callable, make: Callable) -> Any:
    """What `make` gives for arguments of `write`, made when they are first given."""
    return wraps(write)(remembered(make))


def _name_of(write: Callable, arguments: tuple) -> str:
    """Where a kernel's writer is, what it is called, and the dtype that it is given."""
    place = write.__module__.partition(".codegen.")[2].split(".")
    called = re.sub("_?(kernels?|address)$", "", write.__name__).strip("_")
    given = [a.__name__.strip("_") for a in arguments if isinstance(a, FunctionType)]
    return ".".join(dict.fromkeys([*place, *([called] if called else []), *given, *_dtypes(arguments)]))


def _dtypes(arguments: tuple) -> list[str]:
    """The name of the first dtype, or kind of elements, among arguments; or of the first LLVM type."""
    for argument in arguments:
        name = argument if isinstance(argument, str) and argument in INTEGERS | FLOATS else getattr(argument, "name", None)
        if isinstance(name, str):
            return [name]
        found = _dtypes(argument) if isinstance(argument, tuple) else []
        if found:
            return found
    return []


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


def _module(ref: KernelRef) -> Functions | _Compilation:
    """The functions in a kernel's text."""
    identity = ref.identity()
    found = _modules.get(identity)
    if found is not None:
        return found
    key = cache.key_of(identity, str(ref.pipeline))
    made: Functions | _Compilation | None = _from_disk(key, ref)
    if made is None:
        _Compilation.start_idle()
        made = _Compilation(ref, key)
    found = _modules.setdefault(identity, made)
    if found is made:
        _loaded.append(ref)
        if isinstance(made, _Compilation):
            made.announce()
    return found


def _from_disk(key: str, ref: KernelRef) -> Functions | None:
    start = time.perf_counter()
    image: Image | None = cache.read(key)
    if image is None or flags.debug >= 4 or (ref.entry and ref.entry not in image.functions):
        return None
    try:
        functions = _mapped(image, ref)
    except ImportError:  # it names what isn't there: if that is needed, compiling it will say so
        return None
    statistics["loaded"] += 1
    statistics["load_seconds"] += time.perf_counter() - start
    return functions


def _mapped(image: Image, ref: KernelRef) -> Functions:
    """An image in memory, and the addresses of its functions."""
    functions = map_image(image)
    if flags.perf:
        perf_map.add(image, functions, ref.name, ref.entry)
    return functions


class _Compilation:
    """The functions of a text that LLVM translates: on a thread while the next one is written, or when it is asked for.

    Python's main thread has a thread translate that one, too, and waits: an interruption must not find it in the middle of LLVM.
    """

    _idle: list[_Compilation] = []  # what nobody translates yet

    def __init__(self, ref: KernelRef, key: str) -> None:
        text = ref.text()
        if flags.debug >= 4:
            print(text)
        self._ref, self._key, self._pipeline = ref, key, ref.pipeline
        self._texts = [text] if ref.pipeline.vectorise else halves(text)
        self._made: Functions | BaseException | None = None
        self._claim = threading.Lock()  # of who translates it
        self._done = threading.Event()

    def announce(self) -> None:
        """Have this translated when the next one is written, or when it is asked for."""
        self._idle.append(self)
        if flags.debug >= 2:  # what it prints stays in order
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
                error.add_note(f"while kernel {self._ref.name} was compiled")
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
            if _modules.get(self._ref.identity()) is self:
                del _modules[self._ref.identity()]
            raise made
        assert made is not None
        return made

    def _keep(self, objects: list[bytes], start: float) -> Functions:
        """Link object files and put them into the caches."""
        image, ref = link(*objects), self._ref
        if ref.single:  # others that have another name for it find it by this
            image.functions[ref.entry] = image.functions[ref.symbol]
        cache.write(self._key, image)
        functions = _modules[ref.identity()] = _mapped(image, ref)
        seconds = time.perf_counter() - start
        statistics["compiled"] += 1
        statistics["compile_seconds"] += seconds
        if flags.debug >= 2:
            print(f"compiled {ref.name} by {self._pipeline} in {seconds * 1e3:.1f} ms")
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
    except RuntimeError:  # no more threads, or Python is ending
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
    if flags.perf:
        perf_map.in_child(os.getppid())
    for module in list(_modules.values()):
        if isinstance(module, _Compilation):
            module.forked()


os.register_at_fork(after_in_child=_in_child)


def loaded() -> int:
    """How many modules this process has loaded."""
    return len(_loaded)


def loaded_since(count: int) -> list[KernelRef]:
    """What stands for each module loaded after the first `count`: the first kernel that was asked for of it."""
    return _loaded[count:]

"""LLVM IR text to object code for this machine: all that is asked of LLVM, and what it leaves out to be quick.

Several threads may translate at a time; a fork in between would leave LLVM useless in the child, so they do it inside `working`.
Imports llvmlite only when something has to be translated; jit.py keeps what comes out.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache as remembered
from typing import Any, NamedTuple

from flambeau.base.flags import flags
from flambeau.base.locks import Gate

working = Gate()


class Pipeline(NamedTuple):
    """What LLVM does to a kernel's text, and so how long it compiles."""

    simplify: bool = True  # move what a loop does not change out of it, remove redundant work
    combine: bool = False  # replace neighbouring instructions by fewer; part of simplify, at a quarter of its time
    addresses: bool = True  # look for cheaper ways to find addresses in loops: a third of the time
    vectorise: bool = False  # turn scalar loops into vectors: more than doubles the time
    order: bool = True  # move instructions between blocks and within them: a tenth of the time
    direct: bool = False  # translate instructions one by one, and keep their order: a quarter less time
    brief: bool = False  # then allocate registers and nothing else: another quarter less


EXPLICIT = Pipeline()  # the text states its vectors
INDEXED = Pipeline(addresses=False)  # and its addresses are a base and an index
VECTORISED = Pipeline(addresses=False, vectorise=True)
LIGHT = Pipeline(simplify=False, addresses=False)  # the text states what its loops keep in registers as well
DIRECT = LIGHT._replace(direct=True)  # and no choice stands in an inner loop: it would be a branch
BRIEF = DIRECT._replace(brief=True)  # and it is not the inner loop of anything
QUICK = Pipeline(simplify=False, addresses=False, order=False)  # and is so short that their order makes no difference
COMBINED = Pipeline(simplify=False, combine=True, addresses=False)


# What LLVM, in the release where this was measured, does to machine code with little or no effect on kernels, in a fifth of its
# time. It ends the process at an option that it doesn't know, so that another release goes without.
_RELEASE = 22
_OMITTED = (
    "disable-atexit-based-global-dtor-lowering", "disable-cfi-fixup", "disable-cgp-branch-opts", "disable-constant-hoisting",
    "disable-early-ifcvt", "disable-early-taildup", "disable-machine-dce", "disable-mergeicmps",
    "disable-partial-libcall-inlining", "disable-postra-machine-licm", "disable-postra-machine-sink", "disable-select-optimize",
    "disable-ssc", "disable-tail-duplicate", "enable-shrink-wrap=false", "no-stack-coloring",
)  # fmt: skip
_OMITTED_X86 = (
    "disable-x86-domain-reassignment",
    "disable-x86-lea-opt",
    "x86-cmov-converter=false",
    "x86-disable-avoid-SFB",
    "x86-machine-combiner=false",
)


def _omit(triple: str) -> None:
    """Leave out, once and for all, what isn't worth its time."""
    import llvmlite.binding as llvm

    _set_option("optimize-regalloc")  # which a brief machine would not do
    if llvm.llvm_version_info[0] == _RELEASE:
        for option in _OMITTED + (_OMITTED_X86 if triple.startswith("x86_64") else ()):
            _set_option(option)


def _set_option(option: str) -> None:
    import llvmlite.binding as llvm

    llvm.set_option("flambeau", "--" + option)


@remembered
def _target() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    _omit(target.triple)
    return target


_idle: dict[tuple[bool, bool], list[Any]] = {}  # machines that nobody uses
_starting = threading.RLock()


@contextmanager
def _machine(direct: bool, brief: bool) -> Iterator[Any]:
    """LLVM's code generator for this CPU, for one translation at a time; one that has translated directly goes on in part."""
    with _starting:
        idle = _idle.setdefault((direct, brief), [])
        machine = idle.pop() if idle else _new_machine(brief)
    yield machine
    idle.append(machine)


def _new_machine(brief: bool) -> Any:
    import llvmlite.binding as llvm

    return _target().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=0 if brief else 1,
        reloc="pic",
        codemodel="small",
    )


class _Options:
    """LLVM's options hold for the process: translations that want the same ones run at the same time, others wait for them.

    A thread that is called away in the middle of one, by a destructor, doesn't wait for itself.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users: list[int] = []  # threads, as often as they translate
        self._chosen: tuple[tuple[str, bool], ...] = ()

    @contextmanager
    def chosen(self, pipeline: Pipeline) -> Iterator[None]:
        addresses, order, direct = pipeline.addresses, pipeline.order, pipeline.direct
        options = (
            ("disable-lsr", not addresses),
            ("disable-cgp", not order),
            ("disable-post-ra", not order),
            ("fast-isel", direct),
            ("enable-misched", not direct),
        )
        own = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._chosen == options or all(user == own for user in self._users))
            before = self._chosen
            self._choose(options)
            self._users.append(own)
        try:
            yield
        finally:
            with self._changed:
                self._users.remove(own)
                if own in self._users:
                    self._choose(before)
                self._changed.notify_all()

    def _choose(self, options: tuple[tuple[str, bool], ...]) -> None:
        if self._chosen != options:  # parsing options takes as long as parsing a small kernel
            for option, value in options:
                _set_option(f"{option}={str(value).lower()}")
            self._chosen = options


options = _Options()


class Translation:
    """A text that LLVM has read; `emit`, most of the work, needs no Python meanwhile and may be called on another thread."""

    def __init__(self, text: str, pipeline: Pipeline) -> None:
        import llvmlite.binding as llvm

        with ExitStack() as held:  # and let go in reverse order: a module that outlives its context ends the process
            self._machine = machine = held.enter_context(_machine(pipeline.direct, pipeline.brief))
            held.enter_context(options.chosen(pipeline))
            context = held.enter_context(closing(llvm.create_context()))
            self._module = module = held.enter_context(closing(llvm.parse_assembly(text, context)))
            module.triple, module.data_layout = machine.triple, str(machine.target_data)
            _improve(module, machine, pipeline)
            if flags.debug >= 5:
                print(machine.emit_assembly(module))
            self._held = held.pop_all()

    def emit(self) -> bytes:
        """The object file. llvmlite lets one thread at a time call LLVM; machine and context are this text's own, so that its
        longest call goes past that lock.
        """
        from llvmlite.binding import ffi

        with self._held, ffi.OutputString() as error:
            memory = _emission()(self._machine, self._module, 1, error)
            if not memory:
                raise RuntimeError(str(error))
        try:
            return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(memory), ffi.lib.LLVMPY_GetBufferSize(memory))
        finally:
            ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)


def _improve(module: Any, machine: Any, pipeline: Pipeline) -> None:
    """What is done to the module before it is translated."""
    import llvmlite.binding as llvm

    tuning = llvm.create_pipeline_tuning_options(speed_level=2 if pipeline.vectorise else 1)
    tuning.loop_vectorization = tuning.loop_unrolling = pipeline.vectorise
    builder = llvm.create_pass_builder(machine, tuning)
    if pipeline.vectorise:
        builder.getModulePassManager().run(module, builder)
        return
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    if not pipeline.simplify:
        passes.add_sroa_pass()
        if pipeline.combine:
            passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    if pipeline.simplify:
        # what LLVM does to each function, without what it does to a module afterwards
        simplification = builder.getFunctionPassManager()
        for function in module.functions:
            if not function.is_declaration and b"optnone" not in b" ".join(function.attributes):
                simplification.run(function, builder)


@remembered
def _emission() -> Any:
    from llvmlite.binding import ffi

    locked = ffi.lib.LLVMPY_TargetMachineEmitToMemory
    free = ctypes.CDLL(ffi.lib._name).LLVMPY_TargetMachineEmitToMemory
    free.argtypes, free.restype = locked.argtypes, locked.restype
    return free

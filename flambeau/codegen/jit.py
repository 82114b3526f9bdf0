"""LLVM IR text to callable addresses: memory cache, then disk cache, then LLVM.

Stands on image.py and cache.py; imports llvmlite only when something has to be compiled. Everything that runs comes from its
disk cache or its compiler.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache as remembered
from functools import lru_cache
from typing import Any, NamedTuple

from flambeau.base.flags import flags
from flambeau.codegen.images import cache
from flambeau.codegen.images.image import Image, map_image
from flambeau.codegen.images.link import link

_loaded: dict[str, dict[str, int]] = {}         # by what stands for a text: itself, or its description
_writers: list[Callable[[], str]] = []
_lock = threading.RLock()
statistics = {"compiled": 0, "loaded": 0, "compile_seconds": 0.0, "load_seconds": 0.0}


class Pipeline(NamedTuple):
    """What LLVM does to a kernel's text, and so how long it compiles."""

    simplify: bool = True       # move what a loop does not change out of it, remove redundant work
    combine: bool = False       # replace neighbouring instructions by fewer; part of simplify, at a quarter of its time
    addresses: bool = True      # look for cheaper ways to find addresses in loops: a third of the time
    vectorise: bool = False     # turn scalar loops into vectors: more than doubles the time
    order: bool = True          # move instructions between blocks and within them: a tenth of the time
    direct: bool = False        # translate instructions one by one, and keep their order: a quarter less time
    brief: bool = False         # then allocate registers and nothing else: another quarter less


EXPLICIT = Pipeline()                                           # the text states its vectors
INDEXED = Pipeline(addresses=False)                             # and its addresses are a base and an index
VECTORISED = Pipeline(addresses=False, vectorise=True)
LIGHT = Pipeline(simplify=False, addresses=False)               # the text states what its loops keep in registers as well
DIRECT = LIGHT._replace(direct=True)                            # and no choice stands in an inner loop: it would be a branch
BRIEF = DIRECT._replace(brief=True)                             # and it is not the inner loop of anything
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
_OMITTED_X86 = ("disable-x86-domain-reassignment", "disable-x86-lea-opt", "x86-cmov-converter=false", "x86-disable-avoid-SFB",
                "x86-machine-combiner=false")


@remembered
def _omit(triple: str) -> None:
    """Leave out, once and for all, what isn't worth its time."""
    import llvmlite.binding as llvm
    _set_option("optimize-regalloc")    # which a brief machine would not do
    if llvm.llvm_version_info[0] == _RELEASE:
        for option in _OMITTED + (_OMITTED_X86 if triple.startswith("x86_64") else ()):
            _set_option(option)


def _set_option(option: str) -> None:
    import llvmlite.binding as llvm
    llvm.set_option("flambeau", "--" + option)


@remembered
def _machine(direct: bool, brief: bool) -> Any:
    """LLVM's code generator for this CPU; one that has once translated directly goes on in part."""
    import llvmlite.binding as llvm
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    _omit(target.triple)
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=0 if brief else 1, reloc="pic",
        codemodel="small")


@lru_cache(maxsize=1)       # parsing options takes as long as parsing a small kernel, and most kernels want the same
def _set_options(addresses: bool, order: bool, direct: bool) -> None:
    for option, chosen in (("disable-lsr", not addresses), ("disable-cgp", not order), ("disable-post-ra", not order),
                           ("fast-isel", direct), ("enable-misched", not direct)):
        _set_option(f"{option}={str(chosen).lower()}")


def compile_object(text: str, pipeline: Pipeline = EXPLICIT) -> bytes:
    """LLVM IR text to an object file for this machine."""
    import llvmlite.binding as llvm
    machine = _machine(pipeline.direct, pipeline.brief)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    _set_options(pipeline.addresses, pipeline.order, pipeline.direct)
    tuning = llvm.create_pipeline_tuning_options(speed_level=2 if pipeline.vectorise else 1)
    tuning.loop_vectorization = tuning.loop_unrolling = pipeline.vectorise
    builder = llvm.create_pass_builder(machine, tuning)
    if pipeline.vectorise:
        builder.getModulePassManager().run(module, builder)
    else:
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
    if flags.debug >= 5:
        print(machine.emit_assembly(module))
    return machine.emit_object(module)


def compile_module(text: str, pipeline: Pipeline = EXPLICIT) -> dict[str, int]:
    """Addresses of the functions that `text` defines (external linkage)."""
    return _load(text, lambda: text, pipeline)


def compile_kernel(text: str, name: str = "kernel", pipeline: Pipeline = EXPLICIT) -> int:
    """Address of the kernel `name` that `text` defines."""
    return compile_module(text, pipeline)[name]


def compile_described(description: str, write: Callable[[], str], pipeline: Pipeline = EXPLICIT) -> int:
    """Address of the kernel that `write` gives the text of, if it is not in the disk cache under its description.

    description: all that the text depends on but the sources of `base`, `ir` and `codegen`.
    """
    return _load(f"{cache.sources()}\n{description}", write, pipeline)["kernel"]


def _load(identity: str, write: Callable[[], str], pipeline: Pipeline) -> dict[str, int]:
    """Addresses of the functions in the text that `write` gives; `identity` stands for it in the caches."""
    found = _loaded.get(identity)
    if found is not None:
        return found
    with _lock:
        if identity in _loaded:
            return _loaded[identity]
        start = time.perf_counter()
        key = cache.key_of(identity, str(pipeline))
        image: Image | None = cache.read(key)
        if image is None or flags.debug >= 4:
            text = write()
            if flags.debug >= 4:
                print(text)
            image = link(compile_object(text, pipeline))
            cache.write(key, image)
            statistics["compiled"] += 1
            statistics["compile_seconds"] += time.perf_counter() - start
            if flags.debug >= 2:
                print(f"compiled {list(image.functions)} by {pipeline} in {(time.perf_counter() - start) * 1e3:.1f} ms")
        else:
            statistics["loaded"] += 1
            statistics["load_seconds"] += time.perf_counter() - start
        _loaded[identity] = map_image(image)
        _writers.append(write)
        return _loaded[identity]


def loaded() -> int:
    """How many modules this process has loaded."""
    return len(_writers)


def texts_since(count: int) -> list[str]:
    """The LLVM texts of the modules loaded after the first `count`."""
    return [write() for write in _writers[count:]]

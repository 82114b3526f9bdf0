"""LLVM IR text to callable addresses: memory cache, then disk cache, then LLVM.

Stands on image.py and cache.py; imports llvmlite only when something has to be compiled. Everything that runs goes through
`compile_module`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache as remembered
from typing import Any

from flambeau.base.flags import flags
from flambeau.codegen import cache
from flambeau.codegen.image import Image, link, map_image

_loaded: dict[str, dict[str, int]] = {}         # by what stands for a text: itself, or its description
_writers: list[Callable[[], str]] = []
_lock = threading.RLock()
statistics = {"compiled": 0, "loaded": 0, "compile_seconds": 0.0, "load_seconds": 0.0}


LIGHT = 0  # pipeline for code whose loops state their own vectors and unrolling: local clean-up alone
EXPLICIT = 1  # the same with loop-invariant code moved and redundant work removed, but no vectorisers
VECTORISED = 2  # everything, for scalar loops that LLVM turns into vectors: compiles three times as long
INDEXED = 3  # EXPLICIT for loops whose addresses are a base and an index: without the search for cheaper ones, which takes as
#              long as the rest of code generation (VECTORISED goes without it too)


@remembered
def _machine() -> Any:
    """LLVM's code generator for this CPU."""
    import llvmlite.binding as llvm
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, reloc="pic",
        codemodel="small")


def compile_object(text: str, level: int = EXPLICIT) -> bytes:
    """LLVM IR text to an object file for this machine. level: LIGHT, EXPLICIT, VECTORISED or INDEXED."""
    import llvmlite.binding as llvm
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    llvm.set_option("flambeau", f"--disable-lsr={'true' if level in (INDEXED, VECTORISED) else 'false'}")
    tuning = llvm.create_pipeline_tuning_options(speed_level=2 if level == VECTORISED else 1)
    tuning.loop_vectorization = tuning.loop_unrolling = level == VECTORISED
    builder = llvm.create_pass_builder(machine, tuning)
    if level == VECTORISED:
        builder.getModulePassManager().run(module, builder)
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        if level == LIGHT:
            for add in (passes.add_sroa_pass, passes.add_instruction_combine_pass, passes.add_simplify_cfg_pass):
                add()
        passes.run(module, builder)
        if level in (EXPLICIT, INDEXED):
            # what LLVM does to each function, without what it does to a module afterwards
            simplification = builder.getFunctionPassManager()
            for function in module.functions:
                if not function.is_declaration:
                    simplification.run(function, builder)
    if flags.debug >= 5:
        print(machine.emit_assembly(module))
    return machine.emit_object(module)


def compile_module(text: str, level: int = EXPLICIT) -> dict[str, int]:
    """Addresses of the functions that `text` defines (external linkage)."""
    return _load(text, lambda: text, level)


def compile_kernel(text: str, name: str = "kernel", level: int = EXPLICIT) -> int:
    """Address of the kernel `name` that `text` defines."""
    return compile_module(text, level)[name]


def compile_described(description: str, write: Callable[[], str], level: int = EXPLICIT) -> int:
    """Address of the kernel that `write` gives the text of, if it is not in the disk cache under its description.

    description: all that the text depends on but the sources of `base`, `ir` and `codegen`.
    """
    return _load(f"{cache.sources()}\n{description}", write, level)["kernel"]


def _load(identity: str, write: Callable[[], str], level: int) -> dict[str, int]:
    """Addresses of the functions in the text that `write` gives; `identity` stands for it in the caches."""
    found = _loaded.get(identity)
    if found is not None:
        return found
    with _lock:
        if identity in _loaded:
            return _loaded[identity]
        start = time.perf_counter()
        key = cache.key_of(identity, str(level))
        image: Image | None = cache.read(key)
        if image is None or flags.debug >= 4:
            text = write()
            if flags.debug >= 4:
                print(text)
            image = link(compile_object(text, level))
            cache.write(key, image)
            statistics["compiled"] += 1
            statistics["compile_seconds"] += time.perf_counter() - start
            if flags.debug >= 2:
                print(f"compiled {list(image.functions)} at level {level} in {(time.perf_counter() - start) * 1e3:.1f} ms")
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

"""Where an operator lives: its declaration, derivative rule, generated variants, plans and the LLVM text of its kernels.

Stands on the torch namespace, `inspect`, and the table of compiled texts; used by `flambeau where`. Generated
functions are registered with `linecache` by the room that makes them, so `inspect` finds their source like any other.
Plans and kernels are shown by calling the operator, and its derivative, on a small float32 sample and seeing which of them that
makes.
"""

from __future__ import annotations

import importlib
import inspect
import linecache
import sys
from collections.abc import Iterator
from typing import Any

from .codegen import jit
from .codegen.targets.cpu import described, plans_made
from .version import FLAMBEAU

PACKAGE = __name__.partition(".")[0]
PLACES = ("", "Tensor.", "nn.functional.", "nn.", "linalg.", "fft.", "special.", "optim.", "optim.lr_scheduler.")
SAMPLE_SHAPES = ((4, 4), (2, 3, 8, 8), (16,))
SAMPLE_ARGUMENTS = {
    "dim": -1,
    "dim0": 0,
    "dim1": 1,
    "dims": (0,),
    "k": 1,
    "kernel_size": 2,
    "p": 2.0,
    "normalized_shape": (4,),
    "num_groups": 1,
    "output_size": 1,
    "diagonal": 0,
    "min": 0.0,
    "max": 1.0,
}


def resolve(path: str) -> Any:
    """The object that a dotted path below the torch namespace names, or None."""
    found: Any = importlib.import_module(PACKAGE)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def found_objects(name: str) -> Iterator[tuple[str, Any]]:
    """Every public path that `name` stands for, with what is there; an object reached by two paths comes once."""
    seen: set[int] = set()
    for place in PLACES:
        thing = resolve(place + name)
        if thing is not None and id(thing) not in seen and not inspect.ismodule(thing):
            seen.add(id(thing))
            yield place + name, thing


def source_of(thing: Any) -> tuple[str, str]:
    """(file:line, source) of a Python object; raises TypeError or OSError where there is none."""
    thing = inspect.unwrap(thing.fget if isinstance(thing, property) and thing.fget else thing)
    lines, first = inspect.getsourcelines(thing)
    return f"{inspect.getsourcefile(thing)}:{first}", "".join(lines)


def sections(operator: Any) -> Iterator[tuple[str, str]]:
    """(heading, source) of what makes up an operator: its declaration, its rule, its generated variants."""
    declaration = getattr(operator, "body", None) or getattr(operator, "implementation", None)
    for title, thing in (("declaration", declaration), ("derivative rule", getattr(operator, "rule", None))):
        if thing is None:
            continue
        try:
            place, source = source_of(thing)
        except (TypeError, OSError):
            continue
        yield f"{title}  {place}", source
    if getattr(operator, "rule", None) is None and hasattr(operator, "body") and operator.differentiable:
        yield "derivative rule", "derived from the declaration's expression (ir/derivative.py)\n"
    generated = linecache.cache.get(f"<flambeau {operator.name}>")
    if generated is not None:
        yield "generated variants", "".join(linecache.getlines(f"<flambeau {operator.name}>"))


def made_by(call: Any, what: str) -> list[tuple[str, str]]:
    """(heading, text) of the plans and kernels that a call makes and that were not there before."""
    before = jit.loaded()
    with plans_made() as plans:
        call()
    return [
        *((f"plan of {what}", described(plan) + "\n") for plan in plans),
        *((f"LLVM of {kernel.name} for {what}", kernel.text()) for kernel in jit.loaded_since(before)),
    ]


def kernels(function: Any, operator: Any) -> Iterator[tuple[str, str]]:
    """(heading, text) of the plans and kernels of a call on a sample, and of its backward; nothing if no sample fits."""
    torch: Any = importlib.import_module(PACKAGE)
    declaration = getattr(operator, "body", None) or getattr(operator, "implementation", None) or function
    parameters = inspect.signature(declaration).parameters
    operands = getattr(operator, "operands", None) or getattr(operator, "tensors", ())
    names = [name for name in operands if name in parameters and parameters[name].default is inspect.Parameter.empty]
    if not names:
        return
    others = {
        p.name: SAMPLE_ARGUMENTS[p.name]
        for p in parameters.values()
        if p.name not in operands and p.name in SAMPLE_ARGUMENTS and p.default in (p.empty, None)
    }
    for shape in SAMPLE_SHAPES:
        inputs = [torch.full(shape, 0.5).requires_grad_() for _ in names]
        try:
            results: list[Any] = []
            given = dict(zip(names, inputs, strict=True)) | others
            yield from made_by(
                lambda given=given, results=results: results.append(function(**given)),
                f"{operator.name} on float32 {list(shape)}",
            )
        except (TypeError, RuntimeError, ValueError, IndexError, NotImplementedError):
            continue
        out = results[0][0] if isinstance(results[0], tuple) else results[0]
        if isinstance(out, torch.Tensor) and out.requires_grad:
            gradient = torch.ones_like(out)
            yield from made_by(lambda out=out, gradient=gradient: out.backward(gradient), f"the derivative of {operator.name}")
        return


def show(name: str) -> int:
    """Print what is known of an operator; returns the exit status of `flambeau where`."""
    name = name.removeprefix("torch.").removeprefix(f"{PACKAGE}.")
    objects = list(found_objects(name))
    if not objects:
        print(f"flambeau {FLAMBEAU} has nothing called {name!r}", file=sys.stderr)
        return 1
    shown: set[int] = set()
    for path, thing in objects:
        try:
            place, source = source_of(thing)
        except (TypeError, OSError):
            place, source = type(thing).__name__, f"{thing!r}\n"
        print(f"torch.{path}  {place}\n\n{source}")
        operator = getattr(thing, "operator", None)
        if operator is None or id(operator) in shown:
            continue
        shown.add(id(operator))
        for heading, text in [*sections(operator), *kernels(thing, operator)]:
            print(f"{heading}\n\n{text}")
    return 0

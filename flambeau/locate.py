"""Where an operator lives: its declaration, its rules, generated variants, plans and, if wanted, the LLVM text of its kernels.

Stands on the torch namespace, `inspect`, the rules of transforms and the table of compiled texts; used by `flambeau where`.
Generated functions are registered with `linecache` by the room that makes them, so `inspect` finds their source like any other.
Plans and kernels are shown by calling the operator, and its derivative, on a small float32 sample and seeing which of them that
makes. A composite has no rules of its own: those of the operators that its calls on the sample leave in the graph are shown.
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
from .core.operator.facets import CONSTANT, JOINED, LINEAR, TOGETHER, Product
from .transform.batched import way_of
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
TANGENTS = {
    LINEAR: "the same call of the tangent: the operator is linear in its first argument",
    JOINED: "the same call of the tangents: the operator is linear in each of its tensors",
    TOGETHER: "the same call of the tangents: the operator is linear in all of its tensors together",
    CONSTANT: "none: the result doesn't move",
}


def resolve(path: str) -> Any:
    """The object that a dotted path below the torch namespace names, or None."""
    found: Any = importlib.import_module(PACKAGE)
    for part in path.split("."):
        try:
            found = getattr(found, part, None)
        except (AttributeError, RuntimeError):  # a namespace of torch.ops, which hasn't got it
            return None
    return found


def found_objects(name: str) -> Iterator[tuple[str, Any]]:
    """Every public path that `name` stands for, with what is there; an object reached by two paths comes once."""
    seen: set[int] = set()
    for place in PLACES:
        thing = resolve(place + name)
        if thing is not None and id(thing) not in seen and not inspect.ismodule(thing):
            seen.add(id(thing))
            yield place + name, thing
    if not seen and "." in name:  # aten.add, aten.add.Tensor
        packet = resolve(f"ops.{name}")
        for each in [name] if hasattr(packet, "_schema") else [f"{name}.{o}" for o in getattr(packet, "overloads", list)()]:
            yield f"ops.{each}", resolve(f"ops.{each}")


def source_of(thing: Any) -> tuple[str, str]:
    """(file:line, source) of a Python object; raises TypeError or OSError where there is none."""
    thing = inspect.unwrap(thing.fget if isinstance(thing, property) and thing.fget else thing)
    lines, first = inspect.getsourcelines(thing)
    return f"{inspect.getsourcefile(thing)}:{first}", "".join(lines)


def sections(operator: Any, variants: bool = True) -> Iterator[tuple[str, str]]:
    """(heading, source) of what makes up an operator: its declaration, its rule, and, if wanted, its generated variants."""
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
    if variants and generated is not None:
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


def rules(function: Any, operator: Any) -> Iterator[tuple[str, str]]:
    """(heading, text) of what forward mode and vmap make of an operator."""
    said = operator.jvp
    composite = getattr(operator, "composite", False)
    if isinstance(said, Product):
        yield "forward mode", f"the call of each of {said.first} and {said.second} with the other's tangent\n"
    elif said in TANGENTS:
        yield "forward mode", f"{TANGENTS[said]}\n"
    elif hasattr(operator, "body"):
        yield "forward mode", "the derivative, which is elementwise, of the tangent\n"
    elif not composite:
        yield "forward mode", "the gradient of the gradient (transform/double_vjp.py)\n"
    way = way_of(function)
    if way.rule is not None:
        place, source = source_of(way.rule)
        yield f"vmap  {place}", source
    elif not composite:
        yield "vmap", "once for each example\n"


def samples(function: Any, operator: Any) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
    """Arguments to try an operator with: the shape of its tensors, and all by name."""
    torch: Any = importlib.import_module(PACKAGE)
    declaration = getattr(operator, "body", None) or getattr(operator, "implementation", None) or function
    parameters = inspect.signature(declaration).parameters
    operands: Any = getattr(operator, "operands", None) or getattr(operator, "tensors", ())
    names = [name for name in operands if name in parameters and parameters[name].default is inspect.Parameter.empty]
    others = {
        p.name: SAMPLE_ARGUMENTS[p.name]
        for p in parameters.values()
        if p.name not in operands and p.name in SAMPLE_ARGUMENTS and p.default in (p.empty, None)
    }
    for shape in SAMPLE_SHAPES if names else ():
        yield shape, {name: torch.full(shape, 0.5).requires_grad_() for name in names} | others


UNFIT = (TypeError, RuntimeError, ValueError, IndexError, NotImplementedError)  # what calls with a sample raise that isn't one


def kernels(function: Any, operator: Any) -> Iterator[tuple[str, str]]:
    """(heading, text) of the plans and kernels of a call on a sample, and of its backward; nothing if no sample fits."""
    torch: Any = importlib.import_module(PACKAGE)
    for shape, given in samples(function, operator):
        try:
            results: list[Any] = []
            yield from made_by(
                lambda given=given, results=results: results.append(function(**given)),
                f"{operator.name} on float32 {list(shape)}",
            )
        except UNFIT:
            continue
        out = results[0][0] if isinstance(results[0], tuple) else results[0]
        if isinstance(out, torch.Tensor) and out.requires_grad:
            gradient = torch.ones_like(out)
            yield from made_by(lambda out=out, gradient=gradient: out.backward(gradient), f"the derivative of {operator.name}")
        return


def recorded(function: Any, operator: Any) -> list[Any]:
    """The operators that a call on a sample leaves in the graph, from the result on; none if no sample fits."""
    for _, given in samples(function, operator):
        try:
            made = function(**given)
        except UNFIT:
            continue
        waiting = [getattr(made[0] if isinstance(made, tuple) else made, "grad_fn", None)]
        found: dict[Any, Any] = {}
        while waiting:
            node = waiting.pop(0)
            if node is not None and node not in found:
                found[node] = getattr(node, "operator", None)
                waiting += [edge for edge, _ in node.next_functions]
        return [each for each in dict.fromkeys(found.values()) if each is not None]
    return []


def show(name: str, llvm: bool = False) -> int:
    """Print what is known of an operator, with the text of its kernels if `llvm`; returns the exit status of `flambeau where`."""
    name = name.removeprefix("torch.").removeprefix(f"{PACKAGE}.").removeprefix("ops.")
    objects = list(found_objects(name))
    if not objects:
        print(f"flambeau {FLAMBEAU} has nothing called {name!r}", file=sys.stderr)
        return 1
    shown: set[int] = set()
    for path, thing in objects:
        schema = getattr(thing, "_schema", None)
        try:
            place, source = source_of(thing if schema is None else thing.op)
        except (TypeError, OSError):
            place, source = type(thing).__name__, f"{thing!r}\n"
        if schema is not None:
            source = f"{schema}\n"
        print(f"torch.{path}  {place}\n\n{source}")
        operator = getattr(thing, "operator", None) if schema is None else thing.declaration
        if operator is None or id(operator) in shown:
            continue
        shown.add(id(operator))
        function = thing if schema is None else operator.public
        compiled = list(kernels(function, operator))
        parts = [*sections(operator), *rules(function, operator)]
        for one in recorded(function, operator):
            if id(one) not in shown:
                shown.add(id(one))
                named = [*sections(one, variants=False), *rules(one.public, one)]
                parts += [
                    (f"{one.name}, which calls of {operator.name} leave in the graph: {heading}", text) for heading, text in named
                ]
        for heading, text in [*parts, *compiled]:
            if llvm or not heading.startswith("LLVM of "):
                print(f"{heading}\n\n{text}")
    return 0

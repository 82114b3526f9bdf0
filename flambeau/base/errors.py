"""Exception classes of the public namespace that have no counterpart among Python's own.

Everything else raises the built-in type PyTorch raises. Used by all layers.
"""

from __future__ import annotations

from types import FrameType

from flambeau.base.naming import PACKAGE, public_module

__all__ = ["AcceleratorError", "CapturedWrite", "LinAlgError", "OutOfMemoryError", "no_accelerator"]


class OutOfMemoryError(RuntimeError):
    """Memory for a tensor could not be had."""

    __module__ = PACKAGE


class AcceleratorError(RuntimeError):
    """An accelerator reported an error."""

    __module__ = PACKAGE


class LinAlgError(RuntimeError):
    """A linear algebra routine met a matrix it can't handle (singular, not positive definite, no convergence)."""

    __module__ = public_module("_C")


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"  # as PyTorch prints it


class CapturedWrite(RuntimeError):
    """A function under grad, vjp or jvp wrote to a tensor that it captured.

    What raises it knows the memory only; which operator it was is told by the frames it went through.
    """

    def __str__(self) -> str:
        wrote, step = "copy_", self.__traceback__
        while step is not None:
            name, whole = _called(step.tb_frame)
            wrote = name or wrote
            if whole:
                break
            step = step.tb_next
        return (
            "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
            f"(aten::{wrote}) that would mutate a captured Tensor. This is not supported; please "
            "rewrite the function being transformed to explicitly accept the mutated Tensor(s) as inputs."
        )


def _called(frame: FrameType) -> tuple[str | None, bool]:
    """The in-place operator that a frame belongs to, with its overload, or None; and whether what it calls is part of it."""
    name, given = frame.f_code.co_name, frame.f_locals
    if name == "setitem":
        return "index_put_" if given.get("tensors") else "copy_", True
    whole = name in ("inplace", "in_place", "zero_")
    if name in ("inplace", "in_place"):  # one body that serves many
        public = given.get("public", given.get("name", name))
        name = f"{getattr(public, '__name__', public).rstrip('_')}_"
    if name[0] == "_" or not name.endswith("_"):
        return None, False
    tensors = sum(hasattr(x, "_storage") for x in [*given.values(), *given.get("operands", ()), *given.get("args", ())])
    other = name in ("add_", "sub_", "mul_", "div_") or tensors > (2 if name == "masked_fill_" else 1)
    return name + ("" if name not in OVERLOADED else ".Tensor" if other else ".Scalar"), whole


#: In-place operators that PyTorch has in a form for tensors and in one for numbers.
OVERLOADED = frozenset(
    "add_ sub_ mul_ div_ pow_ eq_ ne_ lt_ le_ gt_ ge_ masked_fill_ fill_ lerp_ remainder_ fmod_ floor_divide_".split()
)


def no_accelerator(kind: str) -> Exception:
    """The exception PyTorch's CPU build raises when somebody asks for a device of type `kind`."""
    if kind in ("cuda", "xpu", "mtia"):
        return AssertionError(f"Torch not compiled with {kind.upper()} enabled")
    return NotImplementedError(
        f"Could not run 'aten::empty.memory_format' with arguments from the '{kind.upper()}' backend. flambeau computes "
        "on the CPU: use device='cpu' (or 'meta' for shapes without data)."
    )

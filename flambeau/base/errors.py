"""Exception classes of the public namespace that have no counterpart among Python's own.

Everything else raises the built-in type PyTorch raises. Used by all layers.
"""

from __future__ import annotations

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
    """A function under grad, vjp or jvp wrote to a tensor that it captured (core.autograd.mutation_guard finds the words)."""


def no_accelerator(kind: str) -> Exception:
    """The exception PyTorch's CPU build raises when somebody asks for a device of type `kind`."""
    if kind in ("cuda", "xpu", "mtia"):
        return AssertionError(f"Torch not compiled with {kind.upper()} enabled")
    return NotImplementedError(
        f"Could not run 'aten::empty.memory_format' with arguments from the '{kind.upper()}' backend. flambeau computes "
        "on the CPU: use device='cpu' (or 'meta' for shapes without data)."
    )

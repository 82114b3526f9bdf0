"""torch._dynamo.backends.common: a backend that hands on graphs of aten's operators, forward and backward."""

from __future__ import annotations

from typing import Any

import flambeau as torch

__all__ = ["AotAutograd", "aot_autograd"]


class AotAutograd:
    """A backend that compiles by _functorch.aot_autograd.aot_module_simplified with these settings."""

    def __init__(self, **kwargs: Any) -> None:
        self.__name__ = "compiler_fn"
        self.kwargs = kwargs

    def __call__(self, gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise NotImplementedError(f"options {sorted(kwargs)} for a backend on AOT autograd: make a backend with them")
        if any(isinstance(x, (list, tuple, dict)) for x in example_inputs):
            raise NotImplementedError("AOT autograd takes a flat list of inputs")
        numbers = [
            int(x) if isinstance(x, torch.SymInt) else x for x in example_inputs
        ]  # graphs of aten's operators are by sizes
        return torch._functorch.aot_autograd.aot_module_simplified(gm, numbers, **self.kwargs)


def aot_autograd(**kwargs: Any) -> AotAutograd:
    """A backend of compilers of forward and backward graphs: fw_compiler, bw_compiler, partition_fn, decompositions, ..."""
    return AotAutograd(**kwargs)

"""Fourier transforms of any length: lists of steps, the kernel that runs a list for every row, and the steps.

Stands on codegen.builder. `plans` has the transforms of tensors, `program` writes lists down, `rows` and `short` do rows in
memory and in registers, `radix` and `steps` are the steps, `tables` and `roots` the constants. Used by ops.fft.transforms.
"""

from typing import TYPE_CHECKING

from flambeau.base.lazy_import import submodules

if TYPE_CHECKING:
    from flambeau.codegen.fourier import plans

__getattr__ = submodules(__name__)

"""torch.jit.frontend: from Python's text to a program. The errors that programs name stand here; the rest is in the files.

`parsing` makes trees of the known subset of Python, `emitter` makes a graph of a tree, `resolver` says what names mean.
Whatever is compiled knows the operators that are programs, `builtin_programs`.
"""

from __future__ import annotations

from flambeau.jit.frontend import builtin_programs as _builtin_programs
from flambeau.jit.frontend.errors import FrontendError, FrontendTypeError, NotSupportedError, UnsupportedNodeError
from flambeau.jit.frontend.operators import provide_programs

provide_programs(_builtin_programs.programs_of)

__all__ = ["FrontendError", "FrontendTypeError", "NotSupportedError", "UnsupportedNodeError"]

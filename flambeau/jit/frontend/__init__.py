"""torch.jit.frontend: from Python's text to a program. The errors that programs name stand here; the rest is in the files.

`parsing` makes trees of the known subset of Python, `emitter` makes a graph of a tree, `resolver` says what names mean.
"""

from __future__ import annotations

from flambeau.jit.frontend.errors import FrontendError, FrontendTypeError, NotSupportedError, UnsupportedNodeError

__all__ = ["FrontendError", "FrontendTypeError", "NotSupportedError", "UnsupportedNodeError"]

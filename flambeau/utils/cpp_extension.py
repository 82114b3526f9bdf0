"""torch.utils.cpp_extension: packages that compile operators for PyTorch's C++ classes, which flambeau has none of.

Of a package whose operators flambeau has itself (`flambeau.extensions` lists them) `BuildExtension` compiles nothing: in the
place of each library it writes a file that only has the name, by which `torch.ops.load_library` knows it. So such a package is
installed from its sources as it is (`pip install --no-build-isolation torch_scatter`). Anything else says what to do instead.
"""

from __future__ import annotations

from typing import Any

from flambeau import extensions
from flambeau.core.operator import unsupported as _unsupported

_ADVICE = "flambeau has no C++ below it; declare the operator in Python (docs/add_an_operator.md)"

globals().update(_unsupported.all_of("utils.cpp_extension.", _ADVICE, "load load_inline include_paths verify_ninja_availability"))
CUDA_HOME = None
ROCM_HOME = None


def is_ninja_available() -> bool:
    """False: nothing is built."""
    return False


def CppExtension(name: str, sources: list[str], *args: Any, **kwargs: Any) -> Any:
    """An extension module for setuptools. NotImplementedError if its operators aren't flambeau's own."""
    from setuptools import Extension

    if extensions.known(name.replace(".", "/")) is None:
        raise NotImplementedError(f"torch.utils.cpp_extension can't compile {name}: {_ADVICE}")
    return Extension(name, sources)


CUDAExtension = SyclExtension = CppExtension


def __getattr__(name: str) -> Any:
    if name == "BuildExtension":
        from flambeau.utils import _build_extension  # the module itself is imported without setuptools

        return _build_extension.BuildExtension
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

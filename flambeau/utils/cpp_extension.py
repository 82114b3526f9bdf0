"""torch.utils.cpp_extension: not there; says what to do instead."""

from flambeau.core.operator import unsupported as _unsupported

globals().update(
    _unsupported.all_of(
        "utils.cpp_extension.",
        "flambeau has no C++ below it; declare the operator in Python (docs/add_an_operator.md)",
        "load load_inline include_paths verify_ninja_availability CppExtension CUDAExtension SyclExtension",
        "BuildExtension",
    )
)
CUDA_HOME = None
ROCM_HOME = None


def is_ninja_available() -> bool:
    """False: nothing is built."""
    return False

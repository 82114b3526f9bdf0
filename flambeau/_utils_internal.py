"""torch._utils_internal: where files of the package are, for tests and libraries that ask under this name."""

from __future__ import annotations

import os
import tempfile

import flambeau as torch

__all__ = ["get_file_path", "get_file_path_2", "get_writable_path", "resolve_library_path"]

IS_FBSOURCE = False
TEST_MASTER_ADDR = "127.0.0.1"
TEST_MASTER_PORT = 29500
USE_GLOBAL_DEPS = True
USE_RTLD_GLOBAL_WITH_LIBTORCH = False
torch_parent = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__)))


def is_fbcode() -> bool:
    """False: the package comes from no repository of Meta's."""
    return False


def get_file_path(*path_components: str) -> str:
    """The path of a file below the folder that the package is in."""
    return os.path.join(torch_parent, *path_components)


def get_file_path_2(*path_components: str) -> str:
    """The parts as one path."""
    return os.path.join(*path_components)


def get_writable_path(path: str) -> str:
    """The path itself, or a temporary folder if it can't be written to."""
    return path if os.access(path, os.W_OK) else tempfile.mkdtemp(suffix=os.path.basename(path))


def resolve_library_path(path: str) -> str:
    """The path without symbolic links."""
    return os.path.realpath(path)


def prepare_multiprocessing_environment(path: str) -> None:
    """Nothing is to be prepared."""

"""Compiled libraries of other packages whose operators flambeau has itself: which they are, and who registers them.

Such a library is made for PyTorch's C++ classes. `torch.ops.load_library` of one that is listed here registers operators of the
same names instead, and doesn't read the file. A family of operators is a file or folder of this room, written in the public
operators; torchvision's, which are kernels, are a room of their own. Of the standard library; families are imported when they
are asked for. Used by torch._ops, and by torch.utils.cpp_extension, which leaves such a library uncompiled.
"""

from __future__ import annotations

import importlib
import os
import re
from typing import Any

_registered: dict[str, Any] = {}  # a library takes its operators with it when it goes


def _torchvision() -> Any:
    return importlib.import_module("flambeau.vision_ops").register()


def _torchaudio() -> Any:
    return importlib.import_module("flambeau.extensions.torchaudio").register()


def _torch_scatter() -> Any:
    return importlib.import_module("flambeau.extensions.torch_scatter").register()


def _torch_cluster() -> Any:
    return importlib.import_module("flambeau.extensions.torch_cluster").register()


def _torch_sparse() -> Any:
    return importlib.import_module("flambeau.extensions.torch_sparse").register()


# Folder and beginning of the file's name, up to the first dot -> what registers the operators.
_KNOWN = {
    r"torchvision/(_C|_C_stable)": _torchvision,  # the latter from 0.26 on
    r"torchaudio/lib/(_torchaudio|libtorchaudio)": _torchaudio,
    r"torch_cluster/_(version|fps|graclus|grid|knn|nearest|radius|rw|sampler)_(cpu|cuda)": _torch_cluster,
    r"torch_sparse/_(version|convert|diag|spmm|metis|rw|saint|sample|ego_sample|hgt_sample|neighbor_sample|relabel)_(cpu|cuda)": _torch_sparse,
    r"torch_scatter/_(version|scatter|segment_csr|segment_coo)_(cpu|cuda)": _torch_scatter,
}


def known(path: str) -> str | None:
    """Which of the listed libraries a file is: a key for `register`; None if it is none of them."""
    folders, file = os.path.split(path.replace(os.sep, "/"))
    name = f"{folders}/{file.partition('.')[0]}"
    return next((pattern for pattern in _KNOWN if re.search(f"(^|/){pattern}$", name)), None)


def register(library: str) -> None:
    """Define the operators of a library that is known; once is enough."""
    if library not in _registered:
        _registered[library] = _KNOWN[library]()

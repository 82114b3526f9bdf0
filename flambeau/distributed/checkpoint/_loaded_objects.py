"""What is no tensor in a checkpoint, read as data only: no pickle in it runs anything. Used by `default_planner`."""

from __future__ import annotations

import datetime
import decimal
import io
import pathlib
from typing import IO, Any

import numpy as np

import flambeau as torch

__all__ = ["load_object"]

# What training states hold beside what torch.load allows anyway; making one of these does nothing else.
_HARMLESS = [
    io.BytesIO, datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
    decimal.Decimal, pathlib.PosixPath, pathlib.PurePosixPath, range, slice,
]  # fmt: skip


def _of_numpy() -> list[Any]:
    """The functions and classes that pickles of arrays and numbers name."""
    kinds = [getattr(np.dtypes, name) for name in np.dtypes.__all__]
    array, number = np.zeros(1).__reduce__()[0], np.float64(0).__reduce__()[0]
    names = {f"{module}.{each.__name__}": each for module in ("numpy.core.multiarray", "numpy._core.multiarray")
             for each in (array, number)}  # fmt: skip
    return [np.ndarray, np.dtype, *kinds, array, number, *((each, name) for name, each in names.items())]


def load_object(content: IO[bytes]) -> Any:
    """What torch.save wrote. UnpicklingError for classes that are neither plain data nor named by add_safe_globals."""
    with torch.serialization.safe_globals([*_HARMLESS, *_of_numpy()]):
        return torch.load(content, weights_only=None)

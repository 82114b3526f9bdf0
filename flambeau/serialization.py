"""torch.serialization: a face of flambeau.serialize."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Any, TypeAlias

from flambeau.base.device import device
from flambeau.base.naming import adopt
from flambeau.core.tensor.rebuild import get_layout as _get_layout  # noqa: F401 - what pickles call
from flambeau.serialize import *  # noqa: F403
from flambeau.serialize import __all__ as __all__
from flambeau.serialize.records import is_path as _is_path  # noqa: F401 - for programs that take files apart, as those below
from flambeau.serialize.records import is_zipfile as _is_zipfile  # noqa: F401
from flambeau.serialize.records import open_file_like as _open_file_like  # noqa: F401
from flambeau.serialize.records import open_zipfile_reader as _open_zipfile_reader  # noqa: F401
from flambeau.serialize.records import open_zipfile_writer as _open_zipfile_writer  # noqa: F401

adopt(globals(), __all__)

FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | device | str | dict[str, str] | None


class SourceChangeWarning(Warning):
    """A module's source is not what it was when the file was written; files don't hold sources any more."""

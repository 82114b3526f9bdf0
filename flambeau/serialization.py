"""torch.serialization: a face of flambeau.serialize."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Any, TypeAlias

from flambeau.base.device import device
from flambeau.base.naming import adopt
from flambeau.core.rebuild import get_layout as _get_layout  # noqa: F401 - what pickles call
from flambeau.serialize import *  # noqa: F403
from flambeau.serialize import __all__ as __all__

adopt(globals(), __all__)

FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | device | str | dict[str, str] | None


class SourceChangeWarning(Warning):
    """A module's source is not what it was when the file was written; files don't hold sources any more."""

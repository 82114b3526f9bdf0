"""Of a thread: whether its calls can be replayed at all, and what replays depend on besides what the calls look at.

Stands on core.modes and the runtime; used by entry and backwards.
"""

from __future__ import annotations

import sys
from typing import Any

from flambeau.base.dtype import get_default_dtype
from flambeau.base.flags import flags
from flambeau.codegen.runtime import state
from flambeau.codegen.runtime.threads import planned_threads
from flambeau.core.modes import interception, modes
from flambeau.core.modes.modes import local
from flambeau.core.modes.settings import settings

__all__ = ["special", "thread_modes"]


def special(exporting: str) -> bool:
    """Whether calls run as they are: replays are off, or something is on that sees calls one by one: a profiler, a debugger, or a
    recording, whose part the call is then.
    """
    return bool(
        flags.compile == "off"
        or modes.active.count
        or modes.observed.count
        or interception.anyone_answers()
        or local.draws is not None
        or state.words[state.TAPE]
        or sys.getprofile()
        or sys.gettrace()
        or local.exporting != exporting
    )


def thread_modes() -> tuple[Any, ...]:
    """What functions of flambeau's own rooms read besides their arguments."""
    return (
        local.grad,
        local.inference,
        get_default_dtype(),
        planned_threads(),
        settings.deterministic,
        settings.fills,
        flags.winograd,
        local.multithreading,
        state.words[state.GUARD],
    )

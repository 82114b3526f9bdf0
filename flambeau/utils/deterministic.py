"""torch.utils.deterministic: whether fresh memory is filled in deterministic mode (NaN, or the largest integer).

The switch is an attribute of the module, which can be set. Stands on core.modes.settings.
"""

import sys
import types

from flambeau.core.modes.settings import set_fill_uninitialized_memory, settings


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether `torch.empty` and its relatives fill what they make under `torch.use_deterministic_algorithms(True)`."""
        return settings.fill_uninitialized_memory

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        set_fill_uninitialized_memory(mode)


sys.modules[__name__].__class__ = _Deterministic

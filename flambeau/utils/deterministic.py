"""torch.utils.deterministic: whether fresh memory is filled in deterministic mode.

The switch is kept; what fresh memory holds never changes a result.
"""

from flambeau.core.settings import settings as _settings

fill_uninitialized_memory = _settings.fill_uninitialized_memory

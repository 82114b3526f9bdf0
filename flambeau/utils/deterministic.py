"""torch.utils.deterministic: whether fresh memory is filled in deterministic mode. The switch is kept; fresh memory never varies a result."""

from flambeau.core.settings import settings as _settings

fill_uninitialized_memory = _settings.fill_uninitialized_memory

"""torch.utils.model_zoo: the older home of torch.hub.load_state_dict_from_url."""

from typing import Any

import flambeau as torch


def load_url(*args: Any, **kwargs: Any) -> Any:
    """torch.hub.load_state_dict_from_url."""
    return torch.hub.load_state_dict_from_url(*args, **kwargs)

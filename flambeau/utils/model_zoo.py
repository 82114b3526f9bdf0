"""torch.utils.model_zoo: the older home of torch.hub.load_state_dict_from_url."""

from typing import Any

import flambeau as torch

__all__ = ["load_url"]


def __getattr__(name: str) -> Any:
    if name in ("_download_url_to_file", "tqdm", "load_state_dict_from_url"):
        return getattr(torch.hub, name.removeprefix("_"))
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def load_url(*args: Any, **kwargs: Any) -> Any:
    """torch.hub.load_state_dict_from_url."""
    return torch.hub.load_state_dict_from_url(*args, **kwargs)

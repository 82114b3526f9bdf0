"""replicate: a module whose copies in several processes train as one, without a wrapper. Stands on DistributedDataParallel."""

from __future__ import annotations

from typing import Any

import flambeau as torch

__all__ = ["replicate"]


def replicate(module: Any, ignored_modules: Any = None, **kwargs: Any) -> Any:
    """Have a module's gradients averaged over the processes of a group, and give it back: its class and names of states stay.

    kwargs: as of DistributedDataParallel, which begins at the first call, so that parameters may still be moved or loaded.
    Raises RuntimeError for a module that is replicated already.
    """
    if getattr(module, "_replicate", None) is not None:
        raise RuntimeError("replicate() was called on this module before")
    module.__dict__["_replicate"] = state = _Replicated(module, ignored_modules, kwargs)
    module.register_forward_pre_hook(state.before, prepend=True, with_kwargs=True)
    module.register_forward_hook(state.after, always_call=False)
    return module


class _Replicated:
    """The DistributedDataParallel of a module, whose forward passes the module's own hooks tell it of."""

    def __init__(self, module: Any, ignored: Any, settings: dict[str, Any]) -> None:
        self._ignored, self._settings = list(ignored or ()), settings
        self.ddp: Any = None
        self.module = module

    def _begin(self) -> None:
        module, ignored = self.module, {id(each) for other in self._ignored for each in other.parameters()}
        names = [name for name, each in module.named_parameters() if id(each) in ignored]
        if names:
            kind = torch.nn.parallel.DistributedDataParallel
            kind._set_params_and_buffers_to_ignore_for_model(module, names)
        self.ddp = torch.nn.parallel.DistributedDataParallel(module, **self._settings)

    def before(self, module: Any, args: Any, kwargs: Any) -> None:
        """Before a forward pass."""
        if self.ddp is None:
            self._begin()
        self.ddp._before_forward()

    def after(self, module: Any, args: Any, output: Any) -> None:
        """After a forward pass."""
        self.ddp._after_forward(output)

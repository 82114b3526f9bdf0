"""LazyModuleMixin: modules that take their sizes from the first input."""

from __future__ import annotations

from typing import Any

from flambeau.nn.parameter import is_lazy


class LazyModuleMixin:
    """Mix in before an ordinary module class whose parameters start uninitialised.

    The subclass defines `initialize_parameters(*args)`, called with the first forward's arguments, and may name in
    `cls_to_become` the ordinary class the object turns into afterwards.
    """

    cls_to_become = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        # Uninitialised tensors are saved as they are: detach() needs a shape.
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if is_lazy(parameter) or keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if is_lazy(buffer) or keep_vars else buffer.detach()

    def _lazy_load_hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs) -> None:
        """Give uninitialised tensors the shapes found in a state_dict that is about to be loaded."""
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            key = prefix + name
            if key in state_dict and tensor is not None and is_lazy(tensor) and not is_lazy(state_dict[key]):
                tensor.materialize(state_dict[key].shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialise the parameters for these forward arguments."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether any parameter or buffer of this module still waits for its shape."""
        return any(is_lazy(tensor) for tensor in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module: Any, args: tuple, kwargs: dict | None = None) -> None:
        """The forward pre-hook: initialise, then become an ordinary module."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        delattr(module, "_initialize_hook")
        delattr(module, "_load_hook")
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )

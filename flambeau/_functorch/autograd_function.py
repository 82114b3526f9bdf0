"""torch._functorch.autograd_function: contexts of Functions that show other saved tensors."""

from __future__ import annotations

from typing import Any

from flambeau.transform.functions import VmapInfo

__all__ = ["CtxWithSavedTensors", "VmapInfo", "WrappedCtx"]


class WrappedCtx:
    """A context that hands everything on to another, but for what it has itself."""

    _pt_reserved_attrs: tuple[str, ...] = ("_pt_reserved_attrs", "_pt_inner_ctx")

    def __init__(self, ctx: Any) -> None:
        reserved = type(self)._pt_reserved_attrs
        taken = [] if isinstance(ctx, WrappedCtx) else [name for name in reserved if hasattr(ctx, name)]
        if taken:
            raise RuntimeError(
                f"PyTorch reserves the {taken[0]} field on ctx. Please name your fields on ctx something else to "
                "avoid name collision."
            )
        self._pt_inner_ctx = ctx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pt_inner_ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self)._pt_reserved_attrs:
            self.__dict__[name] = value
        else:
            setattr(self._pt_inner_ctx, name, value)


class CtxWithSavedTensors(WrappedCtx):
    """A context whose saved_tensors are those that are given here."""

    _pt_reserved_attrs = ("_pt_new_saved_tensors", *WrappedCtx._pt_reserved_attrs)

    def __init__(self, ctx: Any, new_saved_tensors: Any) -> None:
        super().__init__(ctx)
        self._pt_new_saved_tensors = new_saved_tensors

    @property
    def saved_tensors(self) -> Any:
        """The tensors that were given."""
        return self._pt_new_saved_tensors

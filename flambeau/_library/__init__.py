"""torch._library: the modules of torch.library that programs import by their inner names. A face over dispatcher and library."""

from __future__ import annotations

from flambeau._library import custom_ops, fake_impl, fake_profile, infer_schema, utils
from flambeau.dispatcher.record import fallthrough_kernel

__all__ = ["custom_ops", "fake_impl", "fake_profile", "fallthrough_kernel", "infer_schema", "utils"]

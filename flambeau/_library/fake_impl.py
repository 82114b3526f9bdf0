"""torch._library.fake_impl: the context of fake implementations."""

from flambeau.dispatcher.fakes import get_ctx

__all__ = ["get_ctx"]

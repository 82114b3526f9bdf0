"""torch._library.fake_impl: the context of fake implementations."""

from flambeau.dispatcher.fakes import FakeImplCtx, get_ctx

__all__ = ["FakeImplCtx", "get_ctx"]

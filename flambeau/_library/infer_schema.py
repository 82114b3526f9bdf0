"""torch._library.infer_schema: schemas from annotations."""

from flambeau.dispatcher.infer import infer_schema

__all__ = ["infer_schema"]

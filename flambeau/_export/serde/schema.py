"""torch._export.serde.schema: the classes of serialized programs. A face of export.serde.schema."""

from flambeau.export.serde import schema as _schema

globals().update({name: value for name, value in vars(_schema).items() if not name.startswith("__")})

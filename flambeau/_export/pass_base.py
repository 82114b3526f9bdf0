"""torch._export.pass_base: passes that record an exported program again. A face of export._passes."""

from flambeau.export._passes import ExportPass as _ExportPassBaseDeprecatedDoNotUse
from flambeau.export._passes import NodeMetadata, ProxyValue

__all__ = ["NodeMetadata", "ProxyValue", "_ExportPassBaseDeprecatedDoNotUse"]

"""torch._subclasses: fake tensors, under the names by which libraries import them. Stands on _subclasses.fake_tensor."""

from flambeau._subclasses.fake_tensor import (
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from flambeau._subclasses.fake_utils import CrossRefFakeMode

__all__ = ["CrossRefFakeMode", "DynamicOutputShapeException", "FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException"]

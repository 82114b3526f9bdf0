"""Models of twenty kinds pass the checker, and ONNX Runtime gives what flambeau does, in four operator sets."""

from __future__ import annotations

import pytest
from onnx_models import MODELS
from onnx_running import exported


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("opset", [13, 18, 20, 23])
def test_model(name: str, opset: int) -> None:
    model = MODELS[name]
    exported(model.make(), model.inputs(2, 5), opset_version=opset)

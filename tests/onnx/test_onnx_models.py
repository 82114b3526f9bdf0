"""Models of twenty kinds pass the checker, and ONNX Runtime gives what flambeau does at three batch sizes and lengths.

Each in the oldest operator set that has all of its operators, and in the ones from which more is kept whole.
"""

from __future__ import annotations

import pytest
from onnx_models import MODELS
from onnx_running import agree, exported

SIZES = ((1, 3), (3, 5), (5, 9))  # batch and length


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("opset", [13, 18, 20, 23])
def test_model(name: str, opset: int) -> None:
    model = MODELS[name]
    net = model.make()
    program = exported(net, model.inputs(2, 6), opset_version=opset, dynamic_shapes=model.shapes)
    names = {str(n) for v in program.model.graph.inputs for n in v.shape if not isinstance(n, int)}
    assert names == {n for shape in model.shapes for n in shape.values()}
    for batch, length in SIZES:
        agree(program, net, model.inputs(batch, length))

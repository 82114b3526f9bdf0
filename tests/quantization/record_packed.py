"""Writes packed.pt: PyTorch's packed weights, what its operators give with them, and a state dict with weights of an LSTM. Run it
with a Python that has PyTorch.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

PLACE = Path(__file__).with_name("packed.pt")


def packs(torch: Any) -> dict[str, Any]:
    """A packed weight of each kind."""
    ops = torch.ops.quantized

    def weight(*shape: int) -> Any:
        count = torch.Size(shape).numel()
        return torch.quantize_per_tensor(torch.linspace(-2, 2, count).reshape(shape), 0.05, 0, torch.qint8)

    bias = torch.tensor([0.5, -0.25])
    rows = torch.quantize_per_channel(torch.eye(4) * 0.7, torch.full((4,), 0.1), torch.full((4,), 0.5), 0, torch.quint8)
    linear, other = ops.linear_prepack(weight(2, 3), bias), ops.linear_prepack(weight(2, 2), None)
    return {
        "linear": linear,
        "linear_half": ops.linear_prepack_fp16(torch.tensor([[0.1, 2.0, -1.0]]), None),
        "conv1d": ops.conv1d_prepack(weight(2, 1, 2), bias, [2], [1], [1], 1),
        "conv2d": ops.conv2d_prepack(weight(2, 1, 2, 2), None, [1, 2], [0, 1], [1, 2], 1),
        "conv3d": ops.conv3d_prepack(weight(2, 1, 1, 2, 2), bias, [1] * 3, [0] * 3, [1] * 3, 1),
        "conv_transpose1d": ops.conv_transpose1d_prepack(weight(2, 1, 2), None, [2], [0], [1], [1], 1),
        "conv_transpose2d": ops.conv_transpose2d_prepack(weight(2, 1, 1, 2), bias[:1], [1] * 2, [0] * 2, [0] * 2, [1] * 2, 1),
        "embedding_bag_byte": ops.embedding_bag_prepack(rows),
        "cell": ops.make_quantized_cell_params_dynamic(linear, other, bias, -bias, True),
    }


def results(torch: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What operators give with the packed weights, in floats."""
    ops = torch.ops.quantized

    def x(*shape: int) -> Any:
        count = torch.Size(shape).numel()
        return torch.quantize_per_tensor(torch.linspace(-1, 1, count).reshape(shape), 0.02, 60, torch.quint8)

    shapes = {"conv1d": (1, 1, 7), "conv2d": (1, 1, 5, 5), "conv3d": (1, 1, 2, 3, 3)}
    shapes |= {"conv_transpose1d": (1, 2, 3), "conv_transpose2d": (1, 2, 2, 2), "linear": (4, 3)}
    made = {name: getattr(ops, name)(x(*shape), given[name], 0.1, 30).dequantize() for name, shape in shapes.items()}
    made["linear_half"] = ops.linear_dynamic_fp16(torch.ones(2, 3), given["linear_half"])
    bags = torch.tensor([0, 2]), torch.tensor([0])
    made["embedding_bag_byte"] = ops.embedding_bag_byte(given["embedding_bag_byte"], *bags)
    return made


if __name__ == "__main__":
    import torch

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    layer, x = torch.nn.LSTM(3, 2), torch.randn(2, 1, 3)
    layers = {str(dtype)[6:]: torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(layer), dtype=dtype)
              for dtype in (torch.qint8, torch.float16)}  # fmt: skip
    whole = packs(torch)
    made: dict[str, Any] = {"packs": whole, "results": results(torch, whole), "x": x}
    for name, model in layers.items():
        made[name] = model.state_dict(), model(x)[0].detach()
    torch.save(made, PLACE)

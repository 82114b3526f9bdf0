"""Models and expressions whose quantized graphs are compared with PyTorch's. Run by record_graphs under PyTorch, by
test_quantized_graphs under flambeau; `torch` is whichever of them comes first.
"""

from __future__ import annotations

import copy
import operator
import re
from typing import Any

NUMBER = re.compile(r"-?\d+\.\d+(e-?\d+)?")
ZERO_POINT = re.compile(r"(?<=#, )-?\d+(?=, -?\d+, \d+, torch)|(?<=zero_point=)-?\d+")
MODES = ("static", "trained", "dynamic")
SETUP = """
import torch.ao.quantization.fx._decomposed
Q = torch.ops.quantized_decomposed
x = torch.linspace(-1.5, 2.0, 12).reshape(3, 4)
s, z = torch.tensor([0.125, 0.25, 0.5]), torch.tensor([0, 1, 2])
rows, none = torch.full((3, 1), 0.125), torch.zeros(3, 1, dtype=torch.int64)
groups, no = torch.full((3, 2), 0.25), torch.zeros(3, 2)
"""
EXPRESSIONS = """
Q.quantize_per_tensor(x, 0.125, 3, -128, 127, torch.int8)
Q.quantize_per_tensor(x.half(), 0.125, 3, 0, 20, torch.uint8)
Q.quantize_per_tensor(x.int(), 0.125, 3, -128, 127, torch.int8)
Q.quantize_per_tensor(x, 0.125, 3, -300, 127, torch.int8)
Q.quantize_per_tensor(x, 0.125, 3, 0, 127, torch.float16)
Q.quantize_per_tensor(x, 0.125, 3, -500, 100, torch.float8_e4m3fn)
Q.quantize_per_tensor(x, 0.125, 3, -400, 400, torch.float8_e4m3fn)
Q.quantize_per_tensor.tensor(x, torch.tensor([0.125]), torch.tensor([3]), -128, 127, torch.int8)
Q.quantize_per_tensor.tensor(x, torch.tensor([0.1, 0.2]), torch.tensor([3]), -128, 127, torch.int8)
Q.quantize_per_tensor.tensor2(x, s[0], z[1], torch.tensor(-8), torch.tensor(7), torch.int8)
Q.dequantize_per_tensor(x.to(torch.int8), 0.125, 3, -128, 127, torch.int8)
Q.dequantize_per_tensor(x.to(torch.int8), 0.125, 3, -128, 127, torch.int8, out_dtype=torch.float16)
Q.dequantize_per_tensor(x.to(torch.int8), 0.125, 3, -128, 127, torch.uint8)
Q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
Q.choose_qparams.tensor(x, 0, 127, 1e-5, torch.uint8)
Q.choose_qparams.tensor(x.half() + 3.3, -128, 127, 1e-5, torch.int8)
Q.choose_qparams.tensor((x * 3).bfloat16(), -128, 127, 1e-5, torch.int8)
Q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.float8_e4m3fn)
Q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.float64)
Q.choose_qparams.tensor(x, 128, 127, 1e-5, torch.int8)
Q.choose_qparams.tensor(x * 0, 0, 127, 1e-5, torch.uint8)
Q.choose_qparams_symmetric.tensor(x, -128, 127, 1e-5, torch.int8)
Q.choose_qparams_per_token(x, torch.int8)
Q.choose_qparams_per_token_asymmetric(x, torch.int8)
Q.quantize_per_channel(x, s, z, 0, -128, 127, torch.int8)
Q.dequantize_per_channel(x.to(torch.int8), s, None, 0, -128, 127, torch.int8)
Q.dequantize_per_channel(x.to(torch.int8), s, z, 0, -128, 127, torch.int8)
Q.quantize_per_token(x, rows, none, -128, 127, torch.int8)
Q.dequantize_per_token(x.to(torch.int8), rows, none, -128, 127, torch.int8, torch.float32)
Q.quantize_per_channel_group(x, groups, no, -8, 7, torch.int8, 2)
Q.quantize_per_channel_group(x, groups, no, -8, 7, torch.int8, 3)
Q.quantize_per_channel_group(x, groups, no, -8, 7, torch.int8, 1)
Q.quantize_per_channel_group(x * float("nan"), groups, no, -8, 7, torch.int8, 2)
Q.dequantize_per_channel_group(x.to(torch.int8), groups, no, -8, 7, torch.int8, 2, torch.float32)
Q.fake_quant_per_channel(x, s, z, 0, -8, 7)
Q.convert_element_type.no_fuse(x, torch.float16)
"""


def models(torch: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """A class and its inputs by name."""
    nn, F = torch.nn, torch.nn.functional

    class Images(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn, self.relu = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()
            self.conv2, self.fc = nn.Conv2d(4, 4, 3), nn.Linear(4, 5)

        def forward(self, x: Any) -> Any:
            y = F.relu(self.conv2(self.relu(self.bn(self.conv(x)))) + 1)
            return self.fc(torch.flatten(F.adaptive_avg_pool2d(y, (1, 1)), 1))

    class Functions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = nn.Parameter(torch.linspace(-1, 1, 16).reshape(4, 4)), nn.Parameter(torch.ones(4))
            self.sub = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 4))
            self.sig = nn.Sigmoid()

        def forward(self, x: Any) -> Any:
            y = F.relu(F.linear(x, self.w, self.b))
            z = self.sub(y)
            q, a = torch.cat([y, z], 1), torch.add(y, z)
            m = a * z
            r = F.relu(m + a)
            n = x.shape[0]
            return self.sig(r).view(n, -1), q.permute(1, 0), torch.matmul(r, m.transpose(0, 1))

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb, self.lstm, self.fc = nn.Embedding(10, 4), nn.LSTM(4, 4), nn.Linear(4, 4)
            self.ln, self.h, self.c1 = nn.LayerNorm(4), nn.Hardswish(), nn.ConvTranspose2d(2, 2, 1)

        def forward(self, i: Any, x: Any) -> Any:
            o, _ = self.lstm(self.emb(i))
            y = F.hardsigmoid(F.leaky_relu(self.h(self.ln(self.fc(o))), 0.1))
            w = F.dropout(F.max_pool2d(self.c1(x), 2), 0.5, False)
            return y, {"w": w.mean(), "v": F.gelu(y)}

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.g = nn.Linear(4, 4), nn.BatchNorm2d(4), nn.GroupNorm(2, 4)
            self.i, self.e = nn.InstanceNorm2d(4), nn.ELU()

        def forward(self, x: Any) -> Any:
            x = self.e(self.i(self.g(F.relu(self.b(x))))).transpose(1, 3)
            y = self.a(x)
            left, right = torch.chunk(self.a(y), 2, dim=1)
            k = operator.mul(torch.stack([left, right]), 2.5)
            return k.sum(), F.interpolate(y, scale_factor=2.0), y.to(torch.float32), torch.tanh(y)

    torch.manual_seed(0)
    return {
        "Images": (Images, (torch.randn(2, 3, 8, 8),)),
        "Functions": (Functions, (torch.randn(2, 4),)),
        "Layers": (Layers, (torch.arange(4).reshape(2, 2), torch.randn(1, 2, 4, 4))),
        "Twice": (Twice, (torch.randn(2, 4, 4, 4),)),
    }


def text(module: Any) -> str:
    """A graph module's code and modules, without numbers that rounding may change."""
    return ZERO_POINT.sub("#", NUMBER.sub("#", module.code.strip() + "\n" + str(module).split("def forward")[0].strip()))


def graphs(torch: Any, name: str, mode: str) -> dict[str, Any]:
    """The graphs of a model through its quantization in one mode, and the sums of its results."""
    aq = torch.ao.quantization
    import importlib

    fx = importlib.import_module(aq.__name__ + ".quantize_fx")
    kind, inputs = models(torch)[name]
    torch.manual_seed(1)
    model = kind()
    if mode == "trained":
        mapping = aq.get_default_qat_qconfig_mapping("fbgemm").set_object_type(
            torch.nn.Embedding, aq.default_embedding_qat_qconfig
        )
        prepared = fx.prepare_qat_fx(model.train(), mapping, inputs)
    else:
        mapping = aq.get_default_qconfig_mapping("fbgemm")
        if mode == "dynamic":
            mapping = aq.QConfigMapping().set_global(aq.default_dynamic_qconfig)
        mapping.set_object_type(torch.nn.Embedding, aq.float_qparams_weight_only_qconfig)
        prepared = fx.prepare_fx(model.eval(), mapping, inputs)
    torch.manual_seed(2)
    made = {"prepared": prepared.code.strip()}
    prepared(*inputs)
    prepared.eval()
    made["reference"] = text(fx.convert_to_reference_fx(copy.deepcopy(prepared)))
    made["decomposed"] = text(fx._convert_to_reference_decomposed_fx(copy.deepcopy(prepared)))
    quantized = fx.convert_fx(prepared)
    made["quantized"] = text(quantized)
    given = quantized(*inputs)
    flat = [*given[:-1], *given[-1].values()] if isinstance(given[-1], dict) else given
    flat = flat if isinstance(flat, list | tuple) else [flat]
    return {**made, "sums": [float(each.float().sum()) for each in flat]}

"""Functions as libraries script them."""

from typing import Dict, List, Optional, Tuple

from implementation import torch

Tensor = torch.Tensor


def swish(x, inplace: bool = False):
    return x.mul_(x.sigmoid()) if inplace else x.mul(x.sigmoid())

def c2p(c2p_pos, query_layer, relative_pos):
    return c2p_pos.expand([query_layer.size(0), query_layer.size(1), query_layer.size(2), relative_pos.size(-1)])

def scaled_size_sqrt(query_layer: torch.Tensor, scale_factor: int):
    return torch.sqrt(torch.tensor(query_layer.size(-1), dtype=torch.float) * scale_factor)

def make_log_bucket_position(relative_pos, bucket_size: int, max_position: int):
    sign = torch.sign(relative_pos)
    mid = bucket_size // 2
    abs_pos = torch.where((relative_pos < mid) & (relative_pos > -mid), torch.tensor(mid - 1).type_as(relative_pos), torch.abs(relative_pos))
    log_pos = torch.ceil(torch.log(abs_pos / mid) / torch.log(torch.tensor((max_position - 1) / mid)) * (mid - 1)) + mid
    bucket_pos = torch.where(abs_pos <= mid, relative_pos.type_as(log_pos), log_pos * sign)
    return bucket_pos

def fused_add_tanh(a, b, n: torch.IntTensor):
    n_int = n[0]
    in_act = a + b
    t = torch.tanh(in_act[:, :n_int, :])
    s = torch.sigmoid(in_act[:, n_int:, :])
    return t * s

def bias_gelu(x, bias):
    x = bias + x
    return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))

def nms_like(boxes: Tensor, scores: Tensor, iou: float) -> Tensor:
    keep = torch.ones_like(scores, dtype=torch.bool)
    order = scores.argsort(descending=True)
    for i in range(order.numel()):
        if keep[i]:
            keep[i + 1:] = False
    return order[keep].float().long()

def box_clip(boxes: Tensor, size: Tuple[int, int]) -> Tensor:
    dim = boxes.dim()
    x = boxes[..., 0::2]
    y = boxes[..., 1::2]
    h, w = size
    x = x.clamp(min=0, max=w)
    y = y.clamp(min=0, max=h)
    return torch.stack((x, y), dim=dim).reshape(boxes.shape)

def levels(boxes: List[Tensor], names: Optional[List[str]] = None) -> Dict[str, Tensor]:
    out: Dict[str, Tensor] = {}
    for i, b in enumerate(boxes):
        key = str(i) if names is None else names[i]
        out[key] = b.to(torch.float64) if b.is_floating_point() else b
    return out

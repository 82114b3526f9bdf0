"""Operators beside their ONNX models: linear algebra, convolutions, pooling, norms, attention, resampling and borders.

Run by test_onnx_operators.
"""

from onnx_cases import Cases, randn

import flambeau as torch
import flambeau.nn.functional as F

CASES = case = Cases()
x = randn(2, 3, 4)
case(F.linear, randn(2, 3), randn(4, 3), randn(4))
case(F.linear, randn(2, 5, 3), randn(4, 3), randn(4))
case(F.linear, randn(3), randn(4, 3))
case(torch.matmul, randn(2, 3, 4), randn(4, 5))
case(torch.mm, randn(3, 4), randn(4, 2))
case(torch.bmm, randn(2, 3, 4), randn(2, 4, 5))
case(torch.mv, randn(3, 4), randn(4))
case(torch.dot, randn(3), randn(3))
case(torch.outer, randn(3), randn(4))
case(lambda a, b, d: torch.addmm(a, b, d, beta=0.5, alpha=2), randn(5), randn(3, 4), randn(4, 5))
case(lambda a, b, d: torch.baddbmm(a, b, d, alpha=2), randn(2, 3, 5), randn(2, 3, 4), randn(2, 4, 5))
case(lambda a, b: torch.einsum("bid,bjd->bij", a, b), randn(2, 3, 4), randn(2, 5, 4))
case(F.bilinear, randn(2, 3), randn(2, 4), randn(5, 3, 4), randn(5))
case(torch.linalg.det, randn(2, 3, 3))
case(lambda a, b: torch.linalg.cross(a, b), randn(2, 3), randn(2, 3))
case(torch.kron, randn(2, 3), randn(3, 2))
case(torch.cdist, randn(2, 3, 4), randn(2, 5, 4))
case(F.pairwise_distance, randn(2, 3), randn(2, 3))
case(F.cosine_similarity, randn(2, 3), randn(2, 3))
case(lambda a, b: torch.tensordot(a, b, 1), randn(2, 3), randn(3, 4))
case(torch.inner, randn(2, 3), randn(4, 3))
case(torch.linalg.vecdot, randn(2, 3), randn(2, 3))
case(lambda a, b, d: torch.addmv(a, b, d), randn(3), randn(3, 4), randn(4))
case(lambda a, b, d: torch.addr(a, b, d), randn(3, 4), randn(3), randn(4))
case(lambda a, b, d: torch.addbmm(a, b, d), randn(3, 5), randn(2, 3, 4), randn(2, 4, 5))
case(lambda a, w: F.conv1d(a, w, padding=1, stride=2), randn(2, 3, 9), randn(4, 3, 3))
case(lambda a, w, b: F.conv2d(a, w, b, dilation=2, groups=1), randn(2, 3, 9, 9), randn(4, 3, 3, 3), randn(4))
case(lambda a, w: F.conv2d(a, w, groups=3, padding="same"), randn(2, 3, 9, 9), randn(6, 1, 3, 2))
case(lambda a, w: F.conv3d(a, w), randn(1, 2, 5, 5, 5), randn(3, 2, 3, 3, 3))
case(lambda a, w: F.conv2d(a, w), randn(3, 9, 9), randn(4, 3, 3, 3))
case(lambda a, w: F.conv_transpose2d(a, w, stride=2, padding=1, output_padding=1), randn(2, 3, 5, 5), randn(3, 4, 3, 3))
case(lambda a, w, b: F.conv_transpose1d(a, w, b, stride=2), randn(2, 3, 5), randn(3, 4, 3), randn(4))
case(lambda a, w: F.conv_transpose3d(a, w, stride=2, groups=2), randn(1, 4, 3, 3, 3), randn(4, 2, 2, 2, 2))
case(lambda a: F.unfold(a, (2, 3), padding=1, stride=2), randn(2, 3, 6, 7))
case(lambda a: F.fold(a, (4, 5), (2, 2)), randn(2, 12, 12))
case(lambda a: F.max_pool1d(a, 2), randn(2, 3, 9))
case(lambda a: F.max_pool2d(a, 3, 2, 1), randn(2, 3, 9, 9))
case(lambda a: F.max_pool2d(a, 3, 2, 1, ceil_mode=True), randn(2, 3, 10, 10))
case(lambda a: F.max_pool2d(a, 2, return_indices=True), randn(2, 3, 6, 6))
case(lambda a: F.max_pool3d(a, 2), randn(1, 2, 6, 6, 6))
case(lambda a: F.avg_pool1d(a, 3, 1, 1), randn(2, 3, 9))
case(lambda a: F.avg_pool2d(a, 3, 2, 1, count_include_pad=False), randn(2, 3, 9, 9))
case(lambda a: F.avg_pool2d(a, 3, 2, 1, ceil_mode=True), randn(2, 3, 10, 10))
case(lambda a: F.avg_pool2d(a, 2, divisor_override=3), randn(2, 3, 6, 6))
case(lambda a: F.avg_pool3d(a, 2), randn(1, 2, 6, 6, 6))
case(lambda a: F.adaptive_avg_pool2d(a, 1), randn(2, 3, 6, 6))
case(lambda a: F.adaptive_avg_pool2d(a, (3, 2)), randn(2, 3, 6, 6))
case(lambda a: F.adaptive_avg_pool2d(a, (4, 5)), randn(2, 3, 7, 7))
case(lambda a: F.adaptive_avg_pool1d(a, 4), randn(2, 3, 7))
case(lambda a: F.adaptive_avg_pool3d(a, 2), randn(1, 2, 5, 5, 5))
case(lambda a: F.adaptive_max_pool2d(a, 3), randn(2, 3, 6, 6))
case(lambda a: F.adaptive_max_pool1d(a, 3, True), randn(2, 3, 6))
case(lambda a: F.lp_pool2d(a, 2.0, 2), randn(2, 3, 6, 6))
case(lambda a: F.max_pool2d(a, 3, 2, 1), randn(3, 9, 9))
case(lambda a: F.max_unpool2d(*F.max_pool2d(a, 2, return_indices=True), 2), randn(2, 3, 6, 6))
case(lambda a, w, b: F.layer_norm(a, (4,), w, b), randn(2, 3, 4), randn(4), randn(4))
case(lambda a: F.layer_norm(a, (3, 4)), randn(2, 3, 4))
case(lambda a, w, b: F.group_norm(a, 2, w, b), randn(2, 4, 5, 5), randn(4), randn(4))
case(lambda a, w, b: F.instance_norm(a, weight=w, bias=b), randn(2, 4, 5, 5), randn(4), randn(4))
case(lambda a, m, v: F.batch_norm(a, m, v), randn(2, 4, 5), randn(4), torch.rand(4))
case(lambda a, w, b: F.batch_norm(a, None, None, w, b, True), randn(2, 4, 5), randn(4), randn(4))
case(lambda a, w: F.rms_norm(a, (4,), w), randn(2, 3, 4), randn(4))
case(lambda a: F.local_response_norm(a, 3), randn(2, 4, 5, 5))
q = randn(2, 3, 5, 8)
case(F.scaled_dot_product_attention, q, randn(2, 3, 6, 8), randn(2, 3, 6, 8))
case(lambda a, b, d: F.scaled_dot_product_attention(a, b, d, is_causal=True), q, q + 1, q - 1)
case(lambda a, b, d, m: F.scaled_dot_product_attention(a, b, d, m), q, q + 1, q - 1, randn(5, 5))
case(
    lambda a, b, d, m: F.scaled_dot_product_attention(a, b, d, m, scale=0.3),
    q,
    q + 1,
    q - 1,
    torch.tensor([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [1, 0, 1, 0, 0], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]).bool(),
)
case(
    lambda a, b, d: F.scaled_dot_product_attention(a, b, d, enable_gqa=True),
    randn(2, 4, 5, 8),
    randn(2, 2, 5, 8),
    randn(2, 2, 5, 8),
)
for m in ("nearest", "bilinear", "bicubic"):
    kw = {} if m == "nearest" else {"align_corners": False}
    case(lambda a, m=m, kw=kw: F.interpolate(a, scale_factor=2.0, mode=m, **kw), randn(2, 3, 4, 5))
    case(lambda a, m=m, kw=kw: F.interpolate(a, size=(7, 3), mode=m, **kw), randn(2, 3, 4, 5))
    if kw:
        case(lambda a, m=m: F.interpolate(a, size=(7, 9), mode=m, align_corners=True), randn(2, 3, 4, 5))
case(lambda a: F.interpolate(a, scale_factor=1.5, mode="linear"), randn(2, 3, 5))
case(lambda a: F.interpolate(a, size=3), randn(2, 3, 5))
case(lambda a: F.interpolate(a, scale_factor=2, mode="trilinear"), randn(1, 2, 3, 3, 3))
case(lambda a: F.interpolate(a, scale_factor=(2.0, 1.5)), randn(2, 3, 4, 5))
for m in ("bilinear", "nearest", "bicubic"):
    for p in ("zeros", "border", "reflection"):
        case(
            lambda a, g, m=m, p=p: F.grid_sample(a, g, mode=m, padding_mode=p, align_corners=False),
            randn(2, 3, 4, 5),
            torch.rand(2, 3, 3, 2) * 2.2 - 1.1,
        )
case(lambda t: F.affine_grid(t, (2, 3, 4, 5), align_corners=False), randn(2, 2, 3))
case(lambda t: F.affine_grid(t, (2, 3, 4, 5), align_corners=True), randn(2, 2, 3))
case(lambda a: F.pad(a, (1, 2)), x)
case(lambda a: F.pad(a, (1, 2, 0, 1), value=3.0), x)
case(lambda a: F.pad(a, (1, 2), mode="reflect"), x)
case(lambda a: F.pad(a, (1, 2), mode="replicate"), x)
case(lambda a: F.pad(a, (1, 2), mode="circular"), x)
case(lambda a: F.pad(a, (1, 1, 2, 1), mode="circular"), randn(1, 2, 4, 4))
case(lambda a: F.pad(a, (-1, 2)), x)
case(lambda a: F.pad(a > 0, (1, 2)), x)
for m in ("nearest-exact", "area"):
    case(lambda a, m=m: F.interpolate(a, size=(5, 3), mode=m), randn(2, 3, 4, 6))

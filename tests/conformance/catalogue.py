"""One call or more of every public operator: samples by family, one per line.

A line is `room.name(arguments)`, where `{a|b}` stands for a line with each of these words. The rooms are those of the
namespace (`torch`, `Tensor`, `nn.functional`, `linalg`, `fft`, `special`). Arguments are Python, in which `inputs` makes
tensors: `f` any numbers, `p` positive ones, `u` between -0.9 and 0.9, `c` complex ones, `b` truths, `n(low, high, ...)`
whole numbers, `s` well-conditioned and `h` positive definite matrices. What follows `->` is what is compared: the result is
`r` there. It is needed where a result is right up to a sign or an order, or where it has no fixed values.

The first sample of a name is tried in all forms (`forms`), the others as a call with its gradient. Stands on nothing; used
by `forms`.
"""

from __future__ import annotations

import re

FAMILIES: dict[str, list[str]] = {}
"""The lines of each family, with their alternatives written out."""

_CHOICE = re.compile(r"\{([^{}]*)\}")


def family(name: str, lines: str) -> None:
    """Add a family. A line that begins with blanks continues the one before."""
    written = re.sub(r"\n +", "", lines.strip()).split("\n")
    FAMILIES[name] = [line for one in written for line in written_out(one)]


def written_out(line: str) -> list[str]:
    """The lines that a line with alternatives stands for."""
    choice = _CHOICE.search(line)
    if choice is None:
        return [line]
    return [each for word in choice[1].split("|") for each in written_out(line[: choice.start()] + word + line[choice.end() :])]


family(
    "unary",
    """
torch.{abs|absolute|angle|arctan|asinh|arcsinh|atan|ceil|conj_physical|cos|cosh|deg2rad|erf|erfc|exp|exp2|expm1|fix|floor|
    frac|i0|isfinite|isinf|isnan|isneginf|isposinf|isreal|logical_not|nan_to_num|neg|negative|positive|rad2deg|relu|round|
    selu|sgn|sigmoid|sign|signbit|sin|sinc|sinh|square|tan|tanh|trunc|celu|hardshrink}(f(2, 3))
torch.{digamma|lgamma|log|log10|log1p|log2|reciprocal|rsqrt|sqrt}(p(2, 3))
torch.{acos|arccos|asin|arcsin|atanh|arctanh|erfinv}(u(2, 3))
torch.{acosh|arccosh}(p(2, 3) + 1.5)
torch.{sqrt|log|acosh|atanh|rsqrt|reciprocal|lgamma|digamma|nan_to_num|exp|sign|isnan|isfinite}(torch.tensor(
    [0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 1e30, -2.5]))
torch.{abs|angle|sqrt|log|exp|tanh|sgn|acos|asin|atan|reciprocal|isfinite|conj_physical|sinh|square|log1p|expm1}(c(2, 3))
torch.{logit}(u(2, 3).abs(), 0.2)
torch.logit(p(2, 3) / 2.1)
torch.round(f(2, 3) * 40, decimals=-1)
torch.nan_to_num(torch.tensor([inf, -inf, nan, 1.0]), 7.0, 8.0, -9.0)
torch.polygamma({2|0|1}, p(2, 3))
torch.mvlgamma(p(2, 3) + 2, 3)
torch.frexp(f(2, 3) * 9)
torch.bitwise_not({n(-9, 9, 2, 3)|b(2, 3)})
torch.{real|imag|view_as_real|conj|resolve_conj|resolve_neg|is_complex|is_conj|is_neg|isreal}(c(2, 3))
torch.view_as_complex(f(3, 2))
torch.{is_floating_point|is_tensor|numel|clone|zero_}(f(2, 3))
torch.{fill|fill_}(f(2, 3), 2.5)
torch.fill(f(2, 3), f())
torch.celu(f(2, 3), 0.5)
torch.hardshrink(f(2, 3), 0.3)
torch.threshold(f(2, 3), 0.1, 20)
torch.rrelu(f(2, 3))
torch.prelu(f(2, 3, 2), f(3))
torch.fake_quantize_per_tensor_affine(f(2, 3), 0.1, 2, -8, 7)
torch.fake_quantize_per_channel_affine(f(2, 3), p(3).detach(), torch.zeros(3, dtype=torch.int32), 1, -8, 7)
Tensor.{is_nonzero|item}(f(1))
Tensor.{bitwise_not|logical_not|neg}(torch.tensor(True))
""",
)

family(
    "binary",
    """
torch.{add|sub|subtract|mul|multiply|div|divide|true_divide|maximum|minimum|fmax|fmin|eq|ne|not_equal|lt|less|le|
    less_equal|gt|greater|ge|greater_equal|logical_and|logical_or|logical_xor|copysign|hypot|nextafter|logaddexp|
    logaddexp2|isclose|atan2|arctan2|rsub|dist|allclose|equal|fmod|remainder|floor_divide}(f(2, 3), f(3))
torch.{pow|float_power|xlogy}(p(2, 3), f(3))
torch.heaviside(torch.tensor([-1.0, 0.0, 2.0]), f(3))
torch.ldexp(f(2, 3), n(-3, 4, 3))
torch.{igamma|igammac}(p(2, 3), p(3))
torch.{bitwise_and|bitwise_or|bitwise_xor|gcd|lcm}(n(-20, 20, 2, 3), n(1, 20, 3))
torch.{bitwise_left_shift|bitwise_right_shift}(n(-20, 20, 2, 3), n(0, 5, 3))
torch.{bitwise_and|bitwise_or|bitwise_xor|logical_and|eq|add|mul|maximum}(b(2, 3), b(3))
torch.{add|mul|div|pow|sub|eq|ne}(c(2, 3), f(3))
torch.{add|sub|mul|div|eq|lt|remainder|fmod|floor_divide|fmax|rsub}(f(2, 3), 2)
torch.{add|sub|mul|true_divide|remainder|fmod|floor_divide|pow}(n(1, 9, 2, 3), {2|2.5})
torch.{add|sub|rsub}(f(2, 3), f(2, 1), alpha=0.5)
torch.pow(f(2, 3), {2|3|0|-1|0.5})
torch.pow({2|0.5}, f(2, 3))
torch.div(f(2, 3), f(2, 3), rounding_mode='{floor|trunc}')
torch.{remainder|floor_divide|fmod}(n(-9, 9, 2, 3), torch.tensor([2, -3, 4]))
torch.{add|eq|pow|maximum|copysign|atan2}(f(2, 3), torch.tensor([nan, inf, -0.0]))
torch.{add|atan2|mul}(f(2, 3), f(4))
torch.{isclose|allclose}(f(2, 3), f(2, 3) * 1.0000001, rtol=1e-3, equal_nan=True)
torch.complex(f(2, 3), f(2, 3))
torch.polar(p(2, 3), f(2, 3))
torch.result_type(f(2, 3), {n(0, 3, 2)|3.5|1j})
torch.can_cast(torch.float64, torch.{int64|float32})
torch.promote_types(torch.float16, torch.{bfloat16|int64|complex64})
torch.{equal|dist}(f(2, 3), f(2, 3))
Tensor.is_same_size(f(2, 3), f(3, 2))
Tensor.{copy_|is_set_to}(f(2, 3), f(2, 3))
Tensor.copy_(f(2, 3), n(-4, 4, 3))
Tensor.{__add__|__radd__|__sub__|__rsub__|__mul__|__rmul__|__truediv__|__rtruediv__|__mod__|__floordiv__|__eq__|__ne__|
    __lt__|__le__|__gt__|__ge__|__matmul__|__pow__|__iadd__|__isub__|__imul__|__itruediv__|__rpow__|__rfloordiv__|
    __rmod__}(f(3, 3), f(3, 3))
Tensor.{__and__|__or__|__xor__|__lshift__|__rshift__|__iand__|__ior__|__ixor__|__rand__|__ror__|__rxor__}(n(1, 9, 2, 3),
    n(1, 5, 3))
Tensor.{__neg__|__pos__|__abs__|__len__}(f(3, 3))
Tensor.__invert__(b(3, 3))
Tensor.{__bool__|__int__|__float__|__index__}(torch.tensor(2))
""",
)

family(
    "ternary",
    """
torch.where(b(2, 3), f(2, 3), f(3))
torch.where(b(2, 3), f(2, 3), 0.5)
torch.where(b(2, 3))
torch.lerp(f(2, 3), f(3), {0.3|0.7})
torch.lerp(f(2, 3), f(3), f(2, 1))
torch.{addcmul|addcdiv}(f(2, 3), f(3), p(2, 1), value=0.5)
torch.{clamp|clip}(f(2, 3), -0.5, 0.5)
torch.clamp(f(2, 3), f(3) - 1, f(3) + 1)
torch.clamp(f(2, 3))
torch.{clamp_min|clamp_max}(f(2, 3), {0.2|f(3)})
torch.masked_fill(f(2, 3), b(3), {2.5|f()})
torch.isin(n(0, 5, 2, 3), n(0, 5, 2), invert={False|True})
torch.masked_scatter(f(2, 3), b(2, 3), f(6))
torch.masked_select(f(2, 3), b(3))
""",
)

family(
    "special",
    """
special.{entr|erfcx|i0|i0e|i1|i1e|ndtr|log_ndtr|expit|bessel_j0|bessel_j1|erf|erfc|exp2|expm1|sinc|round|airy_ai|
    modified_bessel_i0|modified_bessel_i1|spherical_bessel_j0}(f(2, 3))
special.{bessel_y0|bessel_y1|modified_bessel_k0|modified_bessel_k1|scaled_modified_bessel_k0|scaled_modified_bessel_k1|
    gammaln|digamma|psi|log1p}(p(2, 3))
special.{erfinv}(u(2, 3))
special.{ndtri|logit}(p(2, 3) / 2.1)
special.{entr|erfcx|i0e|ndtri|log_ndtr|bessel_j0|bessel_y1|modified_bessel_k1|airy_ai|i1|psi}(torch.tensor(
    [0.0, 1.0, -1.0, inf, -inf, nan, 30.0]))
special.{xlog1py|xlogy}(f(2, 3), p(3))
special.zeta(p(2, 3) + 1.2, p(3))
special.{gammainc|gammaincc}(p(2, 3), p(3))
special.polygamma(1, p(2, 3))
special.multigammaln(p(2, 3) + 2, 2)
special.{chebyshev_polynomial_t|chebyshev_polynomial_u|chebyshev_polynomial_v|chebyshev_polynomial_w|hermite_polynomial_h|
    hermite_polynomial_he|laguerre_polynomial_l|legendre_polynomial_p|shifted_chebyshev_polynomial_t|
    shifted_chebyshev_polynomial_u|shifted_chebyshev_polynomial_v|shifted_chebyshev_polynomial_w}(u(2, 3), n(0, 6, 3))
special.{softmax|log_softmax|logsumexp}(f(2, 3), 1)
""",
)

family(
    "reductions",
    """
torch.{sum|mean|prod|amax|amin|any|all|std|var|nansum|nanmean|count_nonzero|norm|argmax|argmin|max|min|median|nanmedian|
    aminmax|std_mean|var_mean}(f(2, 3))
torch.{sum|mean|amax|amin|any|all|std|var|nansum|nanmean|logsumexp|std_mean|var_mean|prod|argmax|argmin|max|min|median|
    nanmedian|mode|count_nonzero}(f(3, 4), 1)
torch.{sum|mean|amax|amin|std|var|logsumexp|nansum|std_mean}(f(2, 3, 2), (0, 2), keepdim=True)
torch.{max|min|median|argmax|prod|all|mode|cummax|logsumexp}(f(2, 3), -1, {True|False})
torch.{sum|mean|amax|argmax|max|std|softmax|cumsum|sort}(f(2, 3), {5|-3})
torch.{sum|prod|amax|max|mean|all|any|logsumexp|argmin|std}(torch.zeros(0, 3), 0)
torch.{sum|amax|argmax|max|mean|nansum|nanmean|nanmedian|median|std}(torch.tensor([[1.0, nan, inf], [3.0, -inf, 2.0]]), 1)
torch.{sum|mean|prod|nansum|cumsum|cumprod|softmax|log_softmax}(f(2, 3), 1, dtype=torch.float64)
torch.{sum|prod|any|all}({b(2, 3)|n(-3, 4, 2, 3)})
torch.{cumsum|cumprod}({b(2, 3)|n(-3, 4, 2, 3)}, 0)
torch.{std|var|std_mean|var_mean}(f(2, 3), 1, correction={0|2})
torch.{cumsum|cumprod|logcumsumexp|cummax|cummin|softmax|log_softmax}(f(2, 4), 1)
torch.{cumsum|cumprod|softmax}(f(2, 4), 0)
torch.norm(f(2, 3), {1|2|0.5|inf|0}, 1, True)
torch.norm(f(2, 3), '{fro|nuc}')
torch.nuclear_norm(f(2, 3))
torch.{quantile|nanquantile}(f(3, 4), 0.3, 1, interpolation='{linear|lower|higher|midpoint|nearest}')
torch.quantile(f(3, 4), torch.tensor([0.1, 0.6]), dim=0, keepdim=True)
torch.{trapezoid|trapz|cumulative_trapezoid}(f(2, 4), dx=0.5)
torch.trapezoid(f(2, 4), p(2, 4).cumsum(1))
torch.diff(f(2, 4), n=2, prepend=f(2, 1))
torch.renorm(f(2, 3), 2, 0, 0.5)
torch.norm_except_dim(f(2, 3), 2, 0)
torch.norm_except_dim(f(2, 3, 2), 2, -1)
torch.histc(f(9), 4, -2, 2)
torch.histogram(f(9), 4, range=(-2.0, 2.0))
torch.histogramdd(f(9, 2), [3, 2], range=[-2.0, 2.0, -2.0, 2.0])
torch.bincount(n(0, 5, 9), p(9), 7)
torch.{cov|corrcoef}(f(3, 5))
torch.cov(f(3, 5), correction=0, fweights=n(1, 4, 5))
torch.trace(f(3, 3))
torch.gradient(f(4, 5), spacing=0.5, dim=1, edge_order=2)
torch.segment_reduce(f(6, 2), '{sum|mean|max|min}', lengths=torch.tensor([2, 1, 3]))
torch.hash_tensor(n(0, 9, 2, 3))
torch.cosine_similarity(f(2, 3), f(2, 3))
torch.pairwise_distance(f(2, 3), f(2, 3))
torch.sum(f(70, 40)) -> r
torch.{amax|mean|var|prod|logsumexp}(u(40, 70), 0) -> r[::16]
torch.softmax(f(5, 300), 1) -> r[:, ::60]
torch.cumsum(f(3, 300), 1) -> r[:, ::60]
""",
)

family(
    "ordering",
    """
torch.{sort|msort|argsort}(f(3, 4))
torch.{sort|argsort}(f(3, 4), dim=0, descending=True)
torch.{sort|argsort}(n(0, 3, 3, 4), dim=1, stable=True)
torch.sort(torch.tensor([3.0, nan, -inf, inf, -0.0, 0.0]), descending={True|False})
torch.topk(f(3, 4), 2)
torch.topk(f(3, 4), 3, 0, largest=False)
torch.topk(f(3, 4), 9)
torch.kthvalue(f(3, 4), 2, 1, keepdim={False|True})
torch.{unique|unique_consecutive}(n(0, 4, 9), return_inverse=True, return_counts=True)
torch.{unique|unique_consecutive}(n(0, 2, 5, 2), dim=0, return_counts=True)
torch.bucketize(f(2, 3), torch.tensor([-1.0, 0.0, 1.0]), right={False|True})
torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), f(2, 3), {side='left'|out_int32=True})
torch.sort(f(2, 300)) -> (r[0][:, ::50], r[1][:, ::50])
torch.topk(f(2, 300), 4)
""",
)

family(
    "views",
    """
torch.{adjoint|fliplr|flipud|atleast_1d|atleast_2d|atleast_3d|ravel|flatten|squeeze|t|argwhere|nonzero|detach}(f(2, 3))
Tensor.{T|mT|H|mH|data|is_leaf|requires_grad|ndim|nbytes|itemsize|is_sparse|is_meta|output_nr|retains_grad|is_quantized|
    is_cpu|is_cuda|is_mkldnn|is_mps|is_nested|is_sparse_csr|is_vulkan|is_xla|is_xpu|is_ipu|is_maia|is_mtia|dtype|grad|
    volatile|name|grad_dtype}(f(2, 3))
Tensor.{shape|device|layout|grad_fn}(f(2, 3)) -> str(r)[:9]
Tensor.{real|imag}({f(2, 3)|c(2, 3)})
Tensor.{contiguous|detach_|dim|ndimension|element_size|is_contiguous|is_inference|is_signed|get_device|nelement|size|
    stride|storage_offset|tolist|data_ptr|const_data_ptr|dim_order|is_shared|is_pinned|is_distributed|
    type|numpy|untyped_storage|storage|storage_type}(f(2, 3)) -> (bool(r) if isinstance(r, int) and r > 9 else str(r)[:5])
Tensor.size(f(2, 3), 1)
Tensor.stride(f(2, 3), -2)
torch.{reshape}(f(2, 3), (3, -1))
torch.reshape(f(2, 3), (4, -1))
Tensor.view(f(2, 6), 3, -1)
Tensor.view(f(2, 6), torch.int32)
Tensor.view(f(2, 3), 4, 2)
Tensor.{view_as|reshape_as}(f(2, 6), f(3, 4))
torch.broadcast_to(f(3, 1), (2, 3, 4))
Tensor.expand(f(3, 1), {(2, 3, 4)|(-1, 2)|(2, 2)})
Tensor.expand_as(f(3, 1), f(2, 3, 4))
torch.broadcast_tensors(f(3, 1), f(2, 1, 4))
torch.broadcast_shapes((3, 1), (2, 1, 4)) -> list(r)
torch.{transpose|swapaxes|swapdims|movedim|moveaxis}(f(2, 3, 2), 0, {2|-1|4})
torch.{movedim}(f(2, 3, 2), (0, 1), (2, 0))
torch.permute(f(2, 3, 4), {(2, 0, 1)|(0, 0, 1)})
torch.unbind(f(2, 3), 1)
torch.select(f(2, 3), 1, {-1|3})
torch.narrow(f(3, 4), 1, 1, {2|5})
Tensor.narrow_copy(f(3, 4), 1, 1, 2)
torch.{unsqueeze|squeeze}(f(2, 1, 3), 1)
torch.squeeze(f(2, 1, 1), (1, 2))
torch.{chunk|unsafe_chunk}(f(3, 5), 2, 1)
torch.{split|unsafe_split}(f(3, 5), 2, 1)
torch.{split_with_sizes|unsafe_split_with_sizes|split}(f(3, 5), [1, 4], 1)
torch.split(f(3, 5), [1, 5], 1)
torch.tensor_split(f(3, 5), (1, 3), 1)
torch.{hsplit|vsplit|dsplit}(f(2, 4, 2), 2)
Tensor.unfold(f(3, 5), 1, 3, 2)
torch.diagonal(f(3, 4), 1)
torch.as_strided(f(3, 4), (2, 2), (1, 4), 1)
torch.unflatten(f(2, 6), 1, (2, -1))
Tensor.{squeeze_|t_}(f(2, 3))
Tensor.unsqueeze_(f(2, 3), 1)
Tensor.{transpose_|swapaxes_|swapdims_}(f(2, 3), 0, 1)
Tensor.as_strided_(f(2, 3), (2, 2), (1, 2))
Tensor.{resize_|resize}(f(2, 3), (2, 2))
Tensor.{resize_as|resize_as_}(f(2, 3), f(3, 2))
Tensor.set_(f(2, 3), f(4))
Tensor.as_subclass(f(2, 3), torch.Tensor)
Tensor.requires_grad_(f(2, 3), {True|False})
Tensor.{share_memory_|pin_memory}(f(2, 3).detach())
Tensor.__getitem__(f(3, 4), {1|(slice(1, None), 2)|(slice(None, None, 2), None)|...|(n(0, 3, 2), n(0, 4, 2))|[0, 2]|7})
Tensor.__getitem__(f(3, 4), b(3))
Tensor.__getitem__(f(3, 4), (slice(None), n(-4, 4, 2, 2)))
Tensor.__setitem__(f(3, 4).clone(), (slice(None), 1), {2.0|f(3)|f(4)})
Tensor.__setitem__(f(3, 4).clone(), b(3, 4), 0.5)
""",
)

family(
    "moving",
    """
torch.{cat|concat|concatenate}([f(2, 3), f(1, 3)], 0)
torch.cat([f(2, 3), n(0, 3, 2, 1)], 1)
torch.cat([f(2, 3), f(1, 2)], 0)
torch.stack([f(2, 3), f(2, 3)], {1|-1|4})
torch.{hstack|vstack|dstack|column_stack|row_stack}([f(2, 3), f(2, 3)])
torch.block_diag(f(2, 2), f(1, 3))
Tensor.repeat(f(2, 3), 2, 1, 2)
torch.tile(f(2, 3), (2, 2))
torch.repeat_interleave(f(2, 3), {2|n(0, 3, 3)}, 1)
torch.index_select(f(3, 4), 1, n(0, 4, 3))
torch.gather(f(3, 4), 1, n(0, 4, 3, 2))
torch.gather(f(3, 4), 1, n(4, 6, 3, 2))
torch.scatter(f(3, 4), 1, n(0, 4, 3, 2), {2.5|f(3, 2)})
torch.scatter(f(3, 4), 1, n(0, 4, 3, 2), f(3, 2).detach(), reduce='{add|multiply}')
torch.scatter_add(f(3, 4), 0, n(0, 3, 2, 4), f(2, 4))
torch.scatter_reduce(f(3, 4), 1, n(0, 4, 3, 4), f(3, 4), '{sum|prod|mean|amax|amin}', include_self={True|False})
torch.index_add(f(3, 4), 1, n(0, 4, 3), f(3, 3), alpha=0.5)
torch.index_copy(f(3, 4), 1, torch.tensor([2, 0]), f(3, 2))
torch.index_fill(f(3, 4), 1, n(0, 4, 2), {1.5|f()})
torch.index_reduce(f(3, 4), 0, n(0, 3, 3), f(3, 4), '{prod|mean|amax|amin}')
torch.{index_put|index_put_}(f(3, 4), (n(0, 3, 2), n(0, 4, 2)), f(2))
torch.index_put(f(3, 4), (n(0, 3, 5),), f(5, 4), accumulate=True)
torch.take(f(3, 4), n(0, 12, 2, 3))
torch.put(f(3, 4), n(0, 12, 3), f(3), accumulate=True)
torch.take_along_dim(f(3, 4), n(0, 4, 3, 2), 1)
torch.{argwhere|nonzero}(b(3, 4))
torch.nonzero(b(3, 4), as_tuple=True)
torch.nonzero_static(b(3, 4), size=8)
torch.{tril|triu|diag|diag_embed|diagflat}(f(3, 3), 1)
torch.rot90(f(2, 3), 1, (0, 1))
torch.roll(f(2, 3), (1, 2), (0, 1))
torch.flip(f(2, 3), (0, 1))
torch.select_scatter(f(2, 3), f(2), 1, 0)
torch.slice_scatter(f(2, 4), f(2, 2), 1, 0, 4, 2)
torch.diagonal_scatter(f(3, 3), f(3))
torch.as_strided_scatter(f(3, 4), f(2, 2), (2, 2), (4, 1), 1)
Tensor.slice_inverse(f(2, 4)[:, ::2], f(2, 4), 1, 0, 4, 2)
torch.meshgrid(f(2), f(3), indexing='{ij|xy}')
torch.cartesian_prod(f(2), f(3))
torch.combinations(f(4), 2)
torch.vander(f(3), 4, increasing=True)
torch.constant_pad_nd(f(2, 3), (1, 2), 0.5)
torch.{tril_indices|triu_indices}(3, 4, 1)
torch.unravel_index(n(0, 12, 4), (3, 4))
torch.{channel_shuffle|native_channel_shuffle}(f(1, 4, 2, 2), 2)
torch.pixel_shuffle(f(1, 4, 2, 2), 2)
torch.pixel_unshuffle(f(1, 1, 4, 2), 2)
Tensor.{bfloat16|bool|byte|cdouble|cfloat|char|double|float|half|int|long|short|cpu}(f(2, 3) * 3)
Tensor.chalf(f(2, 3)) -> (r.dtype, torch.view_as_real(r))
Tensor.{cuda|ipu|xpu|mtia}(f(2, 3))
Tensor.{to|type}(f(2, 3), torch.float64)
Tensor.to(f(2, 3), {torch.int32|f(1).double()})
Tensor.to(f(2, 3), 'meta') -> (r.device.type, r.shape)
Tensor.type_as(f(2, 3), n(0, 3, 2))
Tensor.fill_diagonal_(f(3, 4), 2.5)
Tensor.sum_to_size(f(3, 4), 3, 1)
Tensor.{map_}(f(2, 3).detach(), f(2, 3).detach(), lambda x, y: x + 2 * y)
Tensor.map2_(f(2, 3).detach(), f(2, 3).detach(), f(2, 3).detach(), lambda x, y, z: x + 2 * y - z)
Tensor.apply_(f(2, 3).detach(), lambda x: 2 * x)
Tensor.{new_zeros|new_ones}(f(2, 3), (2, 2))
Tensor.new_full(f(2, 3), (2, 2), 1.5)
Tensor.new_tensor(f(2, 3), [1, 2])
Tensor.{new_empty|new}(f(2, 3), (2, 2)) -> torch.zeros_like(r)
Tensor.new_empty_strided(f(2, 3), (2, 2), (1, 2)) -> torch.zeros_like(r)
Tensor.module_load(f(2, 3), f(2, 3))
Tensor.backward(f(2, 3).sum())
Tensor.retain_grad(f(2, 3) * 2)
Tensor.register_hook(f(2, 3), lambda g: g) -> type(r).__name__
Tensor.register_post_accumulate_grad_hook(f(2, 3), lambda t: None) -> type(r).__name__
Tensor.reinforce(f(2, 3), 1)
Tensor.{record_stream}(f(2, 3), None)
""",
)

family(
    "making",
    """
torch.{zeros|ones}(2, 3, dtype={None|torch.int64})
torch.empty(2, 3) -> torch.zeros_like(r)
torch.empty_strided((2, 3), (1, 2)) -> torch.zeros_like(r)
torch.empty_permuted((2, 3), (1, 0)) -> torch.zeros_like(r)
torch.{zeros_like|ones_like}(f(2, 3))
torch.empty_like(f(2, 3)) -> torch.zeros_like(r)
torch.full((2, 3), {1.5|2|True|1j})
torch.full_like(f(2, 3), 2.5)
torch.arange({5|1, 6, 2|0.5, 2.0, 0.3|3, 0, -1|3, 0, 1})
torch.range(1, 3, 0.5)
torch.{linspace|logspace}(-1, 2, 5)
torch.eye(3, 4)
torch.{tensor|as_tensor|asarray}({[[1, 2], [3, 4]]|1.5|[True]|[1, 2.5]|[[1], [2, 3]]})
torch.scalar_tensor(2.5)
torch.from_numpy(np.arange(6.0).reshape(2, 3))
torch.frombuffer(bytearray(range(8)), dtype=torch.int16)
torch.from_dlpack(np.arange(3.0))
torch.{bartlett_window|blackman_window|hamming_window|hann_window|kaiser_window}(6)
torch.{hann_window|kaiser_window}(5, False)
""",
)

family(
    "random",
    """
torch.{rand|randn}(2, 3)
torch.rand(2, 3, dtype=torch.float64)
torch.randint(3, 9, (2, 3))
torch.randperm(7)
torch.{rand_like|randn_like}(f(2, 3))
torch.randint_like(f(2, 3), 9)
torch.bernoulli(p(2, 3) / 2.1)
torch.normal(f(2, 3), p(2, 3))
torch.normal(0.5, 2.0, (2, 3))
torch.multinomial(p(2, 5), 3)
torch.multinomial(p(5), 4, replacement=True)
torch.poisson(p(2, 3) * 3)
torch.binomial(n(1, 9, 2, 3).float(), p(2, 3) / 2.1)
Tensor.{uniform_|normal_|exponential_|cauchy_|log_normal_|bernoulli_|random_}(f(2, 3))
Tensor.geometric_(f(2, 3), 0.4)
Tensor.random_(n(0, 2, 2, 3), 3, 9)
torch.{dropout|alpha_dropout|feature_dropout|feature_alpha_dropout|dropout_|alpha_dropout_|feature_dropout_|
    feature_alpha_dropout_}(f(2, 3, 2), 0.4, True)
torch.native_dropout(f(2, 3), 0.4, True)
nn.functional.{dropout|alpha_dropout|feature_alpha_dropout|dropout1d}(f(2, 3, 2), 0.4)
nn.functional.dropout2d(f(2, 3, 2, 2), 0.4)
nn.functional.dropout3d(f(2, 3, 1, 2, 2), 0.4)
nn.functional.dropout(f(2, 3), 0.4, {False|True, True})
nn.functional.gumbel_softmax(f(2, 3))
nn.functional.{rrelu|rrelu_}(f(2, 3), 0.1, 0.3, True)
""",
)

family(
    "products",
    """
torch.matmul(f(2, 3), {f(3, 4)|f(3)|f(5, 3, 2)|f(2, 2)})
torch.matmul(f(3), {f(3)|f(3, 2)})
torch.matmul(f(2, 1, 2, 3), f(4, 3, 2))
torch.mm(f(2, 3), {f(3, 4)|f(2, 4)})
torch.mm(f(40, 30), f(30, 20)) -> r[::13, ::7]
torch.mm(c(2, 3), c(3, 2))
torch.bmm(f(2, 2, 3), f(2, 3, 2))
torch.mv(f(2, 3), f(3))
torch.{dot|inner|vdot}(f(3), f(3))
torch.inner(f(2, 3), f(4, 3))
torch.{outer|ger}(f(2), f(3))
torch.addmm(f(4), f(2, 3), f(3, 4), beta=0.5, alpha=2)
torch.addmv(f(2), f(2, 3), f(3))
torch.addr(f(2, 3), f(2), f(3))
torch.addbmm(f(2, 2), f(2, 2, 3), f(2, 3, 2))
torch.baddbmm(f(2, 2), f(2, 2, 3), f(2, 3, 2), beta=0.5)
torch.einsum('{ij,jk->ik|bij,bjk->bik}', f(2, 2, 2)[0], f(2, 2))
torch.einsum('bij,bjk->bik', f(2, 2, 3), f(2, 3, 2))
torch.einsum('ii->i', f(3, 3))
torch.tensordot(f(2, 3, 4), f(4, 3), ([2, 1], [0, 1]))
torch.bilinear(f(2, 3), f(2, 4), f(2, 3, 4), f(2))
torch.kron(f(2, 2), f(1, 3))
torch.chain_matmul(f(2, 3), f(3, 4), f(4, 2))
torch.cross(f(2, 3), f(2, 3), dim=1)
torch.cdist(f(3, 2), f(4, 2), {2.0|1.0|inf})
torch.pdist(f(4, 3))
nn.functional.linear(f(2, 3), f(4, 3), {None|f(4)})
nn.functional.bilinear(f(2, 3), f(2, 4), f(2, 3, 4))
nn.functional.pdist(f(4, 3))
nn.functional.{pairwise_distance|cosine_similarity}(f(2, 3), f(2, 3))
nn.functional.grouped_mm(f(4, 16).bfloat16(), f(2, 16, 8).bfloat16(), offs=torch.tensor([1, 4], dtype=torch.int32))
nn.functional.scaled_mm(f(2, 16), f(16, 16), f(1), 0, f(1), 0)
nn.functional.scaled_grouped_mm(f(2, 16), f(16, 16), f(1), 0, f(1), 0)
nn.functional.scaled_dot_product_attention(f(1, 2, 3, 4), f(1, 2, 5, 4), f(1, 2, 5, 4))
nn.functional.scaled_dot_product_attention(f(1, 2, 4, 4), f(1, 2, 4, 4), f(1, 2, 4, 4), is_causal=True)
nn.functional.scaled_dot_product_attention(f(2, 3, 4), f(2, 5, 4), f(2, 5, 4), b(3, 5).logical_or(
    torch.eye(3, 5).bool()), scale=0.3)
nn.functional.multi_head_attention_forward(f(3, 2, 4), f(3, 2, 4), f(3, 2, 4), 4, 2, f(12, 4), f(12), None, None, False,
    0.0, f(4, 4), f(4))
""",
)

family(
    "matrices",
    """
torch.{det|logdet|slogdet|inverse}(h(3))
torch.pinverse(f(3, 2))
torch.{matrix_exp}(f(3, 3))
torch.matrix_power(s(3), {3|-2|0})
torch.cholesky(h(3))
torch.cholesky_inverse(torch.linalg.cholesky(h(3)))
torch.cholesky_solve(f(3, 2), torch.linalg.cholesky(h(3)))
torch.qr(f(4, 3)) -> (r[0].abs(), r[1].abs(), r[0] @ r[1])
torch.svd(f(4, 3)) -> (r[0].abs(), r[1], (r[0] * r[1]) @ r[2].mT)
torch.{svd_lowrank|pca_lowrank}(f(6, 4), 2) -> r[1]
torch.geqrf(f(4, 3)) -> r[0].triu().abs()
torch.orgqr(*torch.geqrf(f(4, 3)))
torch.ormqr(*torch.geqrf(f(4, 3)), f(4, 2))
torch.lu(s(3))
torch.lu_solve(f(3, 2), *torch.linalg.lu_factor(s(3)))
torch.lu_unpack(*torch.linalg.lu_factor(s(3)))
torch.triangular_solve(f(3, 2), s(3))
linalg.{det|slogdet|inv|inv_ex|cholesky|cholesky_ex|eigvalsh|matrix_exp|cond|pinv|svdvals|matrix_norm|norm|vector_norm|
    matrix_rank|lu_factor|lu_factor_ex|ldl_factor|ldl_factor_ex|diagonal|lu}(h(3))
linalg.{det|inv|solve_ex|slogdet}(torch.zeros(3, 3))
linalg.{inv|det|cholesky|eigvalsh}(f(2, 3))
linalg.{inv|det|svdvals|solve}({s(3), f(3)|s(3)})
linalg.cholesky(-h(3))
linalg.ldl_solve(*linalg.ldl_factor(h(3)), f(3, 2))
linalg.eigh(h(3)) -> (r[0], r[1].abs())
linalg.eig(s(3)) -> r[0].abs().sort()[0]
linalg.eigvals(s(3)) -> r.abs().sort()[0]
linalg.{svd}(f(4, 3), full_matrices={False|True}) -> (r[0][:, :3].abs(), r[1])
linalg.qr(f(4, 3), mode='{reduced|complete|r}') -> (r[0].abs(), r[1].abs())
linalg.cross(f(2, 3), f(2, 3))
linalg.vecdot(f(2, 3), f(2, 3))
linalg.matmul(f(2, 3), f(3, 2))
linalg.matrix_power(s(3), 3)
linalg.{matrix_norm|norm}(f(3, 4), {1|-1|2|-2|inf|'fro'|'nuc'})
linalg.vector_norm(f(3, 4), {1|3|0|inf}, 1)
linalg.multi_dot([f(2, 3), f(3, 4), f(4, 2)])
linalg.{solve|solve_ex}(s(3), f(3, 2))
linalg.solve(s(3), f(3))
linalg.lu_solve(*linalg.lu_factor(s(3)), f(3, 2))
linalg.solve_triangular(s(3).triu(), f(3, 2), upper=True)
linalg.lstsq(f(4, 3), f(4, 2)) -> r[0]
linalg.tensorinv(s(4).reshape(2, 2, 4), ind=2)
linalg.tensorsolve(s(4).reshape(2, 2, 4), f(2, 2))
linalg.vander(f(3), N=4)
linalg.householder_product(*torch.geqrf(f(4, 3)))
linalg.inv(s(40)) -> r[::13, ::13]
linalg.eigvalsh(h(30)) -> r[::7]
linalg.svdvals(f(30, 20)) -> r[::7]
linalg.det({s(2).expand(3, 2, 2)|c(2, 2)})
Tensor.{solve|lstsq|eig|symeig}(s(3), f(3, 2))
""",
)

family(
    "signals",
    """
fft.{fft|ifft|rfft|ihfft}(f(2, 5))
fft.{irfft|hfft}(c(2, 5))
fft.{fft|ifft|rfft|irfft|hfft}(c(4), {6|3}, norm='ortho')
fft.{fft|irfft}(c(2, 7), 5, 0)
fft.{fft2|ifft2|rfft2|ihfft2|fftn|ifftn|rfftn|ihfftn}(f(2, 3, 4))
fft.{irfft2|hfft2|irfftn|hfftn}(c(2, 3, 4))
fft.fftn(f(2, 3), s=(3, 2), dim=(0, 1), norm='forward')
fft.{fftshift|ifftshift}(f(3, 4))
fft.{fftfreq|rfftfreq}(5, 0.5)
fft.fft(f(97)) -> r[::16]
torch.stft(f(9), 4, 2, window=torch.ones(4), return_complex=True)
torch.istft(c(3, 5), 4, 2, window=torch.ones(4))
""",
)

family(
    "activations",
    """
nn.functional.{relu|relu6|elu|selu|celu|gelu|glu|hardshrink|hardsigmoid|hardswish|hardtanh|leaky_relu|logsigmoid|mish|silu|
    softplus|softshrink|softsign|tanhshrink|tanh|sigmoid|rrelu}(f(2, 4))
nn.functional.{relu_|elu_|selu_|celu_|leaky_relu_|hardtanh_}(f(2, 3))
nn.functional.{relu|elu|selu|celu|leaky_relu|hardtanh|relu6|silu|mish|hardswish|hardsigmoid}(f(2, 3), inplace=True)
nn.functional.{threshold|threshold_}(f(2, 3), 0.1, 20)
nn.functional.gelu(f(2, 3), approximate='tanh')
nn.functional.{elu|celu|leaky_relu|softshrink|hardshrink}(f(2, 3), 0.3)
nn.functional.softplus(f(2, 3), 2, 1)
nn.functional.prelu(f(2, 3), f(3))
nn.functional.{softmax|log_softmax|softmin}(f(2, 3), 1)
nn.functional.normalize(f(2, 3), p=3, dim=1)
nn.functional.one_hot(n(0, 4, 3), 5)
nn.functional.pad(f(2, 3), (1, -1, 0, 2), value=0.5)
nn.functional.pad(f(1, 2, 4), (1, 2), mode='{reflect|replicate|circular}')
nn.functional.embedding(n(0, 4, 2, 2), f(4, 3), padding_idx=1)
nn.functional.embedding(n(0, 4, 2, 2), f(4, 3), max_norm=0.5)
nn.functional.embedding(n(5, 9, 2), f(4, 3))
nn.functional.embedding_bag(n(0, 4, 5), f(4, 3), torch.tensor([0, 2]), mode='{sum|mean|max}')
torch.embedding(f(4, 3), n(0, 4, 2, 2))
torch.embedding_bag(f(4, 3), n(0, 4, 5), torch.tensor([0, 2]))
torch.embedding_renorm_(f(4, 3).detach(), n(0, 4, 2), 0.5, 2.0)
""",
)

family(
    "convolutions",
    """
torch.conv1d(f(1, 2, 5), f(3, 2, 3), f(3), padding=1)
torch.conv2d(f(1, 2, 4, 4), f(2, 2, 3, 3), f(2), padding=1, stride=2)
torch.conv3d(f(1, 1, 3, 3, 3), f(2, 1, 2, 2, 2))
torch.conv_transpose1d(f(1, 2, 4), f(2, 3, 3), stride=2, output_padding=1)
torch.conv_transpose2d(f(1, 2, 3, 3), f(2, 1, 2, 2), f(1), stride=2)
torch.conv_transpose3d(f(1, 1, 2, 2, 2), f(1, 1, 2, 2, 2))
torch.convolution(f(1, 2, 4, 4), f(2, 2, 3, 3), f(2), [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
{torch|nn.functional}.conv_tbc(f(5, 1, 2), f(3, 2, 2), f(2), 1)
nn.functional.conv1d(f(1, 4, 6), f(4, 2, 3), groups=2, dilation=2, padding='same')
nn.functional.conv2d(f(1, 3, 4, 4), f(3, 1, 3, 3), groups=3)
nn.functional.conv2d(f(1, 2, 4, 4), f(2, 3, 3, 3))
nn.functional.conv2d(f(2, 16, 9, 9), f(16, 16, 3, 3), f(16), padding=1) -> r[:, ::7, ::4, ::4]
nn.functional.conv3d(f(1, 2, 3, 3, 3), f(2, 2, 2, 2, 2), padding=1) -> r[..., ::2]
nn.functional.conv_transpose1d(f(1, 2, 4), f(2, 3, 3), padding=1)
nn.functional.conv_transpose2d(f(1, 2, 3, 3), f(2, 1, 2, 2), dilation=2)
nn.functional.conv_transpose3d(f(1, 1, 2, 2, 2), f(1, 2, 2, 2, 2)) -> r[..., ::2]
nn.functional.unfold(f(1, 2, 3, 3), 2, padding=1)
nn.functional.fold(f(1, 8, 4), (3, 3), 2)
nn.functional.interpolate(f(1, 1, 3, 3), scale_factor=2, mode='{nearest|bilinear|bicubic|area|nearest-exact}')
nn.functional.interpolate(f(1, 2, 4), size=7, mode='linear', align_corners=True)
nn.functional.interpolate(f(1, 1, 2, 2, 2), size=3, mode='trilinear') -> r[..., ::2]
nn.functional.interpolate(f(1, 1, 5, 5), size=3, mode='{bilinear|bicubic}', antialias=True)
nn.functional.{upsample|upsample_nearest|upsample_bilinear}(f(1, 1, 3, 3), scale_factor=2)
nn.functional.grid_sample(f(1, 2, 3, 3), u(1, 2, 2, 2) * 1.3, '{bilinear|nearest|bicubic}', '{zeros|border|reflection}',
    align_corners=False)
nn.functional.affine_grid(f(1, 2, 3), (1, 1, 2, 3), align_corners={False|True})
torch.affine_grid_generator(f(1, 2, 3), (1, 1, 2, 3), False)
torch.grid_sampler(f(1, 2, 3, 3), u(1, 2, 2, 2), 0, 0, False)
torch.grid_sampler_2d(f(1, 2, 3, 3), u(1, 2, 2, 2), 0, 0, False)
torch.grid_sampler_3d(f(1, 2, 3, 3, 3), u(1, 2, 2, 2, 3), 0, 0, False)
nn.functional.{channel_shuffle|native_channel_shuffle}(f(1, 4, 2, 2), 2)
nn.functional.pixel_shuffle(f(1, 4, 2, 2), 2)
nn.functional.pixel_unshuffle(f(1, 1, 4, 2), 2)
""",
)

family(
    "pooling",
    """
torch.{avg_pool1d|max_pool1d|max_pool1d_with_indices}(f(1, 2, 7), 3, 2, 1)
torch.{max_pool2d}(f(1, 2, 5, 5), 3, 2, 1)
torch.max_pool3d(f(1, 1, 4, 4, 4), 2)
torch.{adaptive_avg_pool1d|adaptive_max_pool1d}(f(1, 2, 7), 3)
nn.functional.{avg_pool1d|max_pool1d|max_pool1d_with_indices}(f(1, 2, 7), 3, 2, 1)
nn.functional.{avg_pool2d|max_pool2d|max_pool2d_with_indices}(f(1, 2, 5, 5), 3, 2, 1, ceil_mode=True)
nn.functional.{avg_pool3d|max_pool3d|max_pool3d_with_indices}(f(1, 1, 4, 4, 4), 2)
nn.functional.max_pool2d(f(1, 2, 5, 5), 3, dilation=2, return_indices=True)
nn.functional.max_pool2d(f(1, 2, 5, 5), 3, 2, 2)
nn.functional.avg_pool2d(f(1, 2, 5, 5), 3, 2, 1, count_include_pad=False, divisor_override={None|5})
nn.functional.{adaptive_avg_pool1d|adaptive_max_pool1d|adaptive_max_pool1d_with_indices}(f(1, 2, 7), 3)
nn.functional.{adaptive_avg_pool2d|adaptive_max_pool2d|adaptive_max_pool2d_with_indices}(f(1, 2, 5, 4), (2, 3))
nn.functional.{adaptive_avg_pool3d|adaptive_max_pool3d|adaptive_max_pool3d_with_indices}(f(1, 1, 3, 3, 4), 2)
nn.functional.lp_pool1d(f(1, 2, 6), 2, 2)
nn.functional.lp_pool2d(f(1, 2, 4, 4), 2, 2)
nn.functional.lp_pool3d(f(1, 1, 4, 4, 4), 2, 2)
nn.functional.{fractional_max_pool2d|fractional_max_pool2d_with_indices}(f(1, 2, 5, 5), 2, (3, 3))
nn.functional.{fractional_max_pool3d|fractional_max_pool3d_with_indices}(f(1, 1, 4, 4, 4), 2, (2, 2, 2))
nn.functional.max_unpool1d(f(1, 1, 3), torch.tensor([[[1, 2, 5]]]), 2)
nn.functional.max_unpool2d(f(1, 1, 2, 2), torch.tensor([[[[0, 3], [9, 14]]]]), 2)
nn.functional.max_unpool3d(f(1, 1, 1, 1, 2), torch.tensor([[[[[0, 7]]]]]), 2)
""",
)

family(
    "norms",
    """
torch.layer_norm(f(2, 3), (3,), f(3), f(3))
torch.rms_norm(f(2, 3), (3,), f(3))
torch.group_norm(f(2, 4, 3), 2, f(4), f(4))
torch.batch_norm(f(3, 2), f(2), f(2), torch.zeros(2), torch.ones(2), True, 0.1, 1e-5, False)
torch.instance_norm(f(2, 2, 3), None, None, None, None, True, 0.1, 1e-5, False)
torch.native_layer_norm(f(2, 3), (3,), f(3), f(3), 1e-5)
torch.native_group_norm(f(2, 4, 3), f(4), f(4), 2, 4, 3, 2, 1e-5)
torch.native_batch_norm(f(3, 2), f(2), f(2), torch.zeros(2), torch.ones(2), True, 0.1, 1e-5)
torch.batch_norm_update_stats(f(3, 2), torch.zeros(2), torch.ones(2), 0.1)
nn.functional.layer_norm(f(2, 3, 4), (3, 4), f(3, 4), f(3, 4))
nn.functional.layer_norm(f(2, 3), (4,))
nn.functional.rms_norm(f(2, 3), (3,), f(3))
nn.functional.group_norm(f(2, 4, 3), {2|3})
nn.functional.batch_norm(f(2, 3, 2), torch.zeros(3), torch.ones(3), f(3), f(3), {True|False})
nn.functional.batch_norm(f(1, 3), None, None, training=True)
nn.functional.instance_norm(f(2, 3, 4), weight=f(3), bias=f(3))
nn.functional.local_response_norm(f(2, 4, 3), 3)
""",
)

family(
    "losses",
    """
nn.functional.{mse_loss|l1_loss|smooth_l1_loss|huber_loss|kl_div|soft_margin_loss|poisson_nll_loss|hinge_embedding_loss|
    binary_cross_entropy_with_logits|multilabel_soft_margin_loss}(f(2, 3), f(2, 3), reduction='{mean|none}')
nn.functional.{mse_loss|huber_loss}(f(2, 3), f(2, 3), reduction='{sum|most}')
nn.functional.binary_cross_entropy(p(2, 3) / 2.1, p(2, 3) / 2.1, reduction='{mean|none}')
nn.functional.kl_div(f(2, 3), f(2, 3), log_target=True, reduction='batchmean')
nn.functional.cross_entropy(f(3, 4), n(0, 4, 3), f(4).abs(), label_smoothing={0.0|0.1}, reduction='{mean|none}')
nn.functional.cross_entropy(f(3, 4), f(3, 4).softmax(1))
nn.functional.cross_entropy(f(3, 4), n(4, 9, 3))
nn.functional.cross_entropy(f(2, 3, 2), n(0, 3, 2, 2), ignore_index=1)
nn.functional.nll_loss(f(3, 4), n(0, 4, 3), ignore_index={-100|1})
nn.functional.{margin_ranking_loss|cosine_embedding_loss}({f(3), f(3), torch.tensor([1.0, -1.0, 1.0])|f(3, 2), f(3, 2),
    torch.tensor([1.0, -1.0, 1.0])})
torch.binary_cross_entropy_with_logits(f(2, 3), p(2, 3) / 2.1)
nn.functional.gaussian_nll_loss(f(2, 3), f(2, 3), p(2, 3))
nn.functional.triplet_margin_loss(f(2, 3), f(2, 3), f(2, 3), swap={False|True})
nn.functional.triplet_margin_with_distance_loss(f(2, 3), f(2, 3), f(2, 3))
nn.functional.multi_margin_loss(f(3, 4), n(0, 4, 3))
nn.functional.multilabel_margin_loss(f(2, 3), torch.tensor([[1, -1, 0], [2, 0, -1]]))
nn.functional.linear_cross_entropy(f(3, 4), f(5, 4), n(0, 5, 3))
{torch|nn.functional}.ctc_loss(f(5, 2, 4).log_softmax(2), n(1, 4, 2, 2), torch.tensor([5, 4]), torch.tensor([2, 1]))
""",
)

family(
    "sparse",
    """
Tensor.{to_sparse|to_sparse_coo|to_sparse_csr|to_sparse_csc}(f(2, 3)) -> r.to_dense()
Tensor.{to_sparse_bsr|to_sparse_bsc}(f(2, 4), (1, 2)) -> r.to_dense()
Tensor.{to_dense|coalesce|indices|values|sparse_dim|dense_dim|is_coalesced}(f(2, 3).to_sparse())
Tensor.{crow_indices|col_indices|values|to_dense}(f(2, 3).to_sparse_csr())
Tensor.{ccol_indices|row_indices}(f(2, 3).to_sparse_csc())
Tensor.sparse_mask(f(2, 3), torch.eye(2, 3).to_sparse()) -> r.to_dense()
Tensor.{sparse_resize_|sparse_resize_and_clear_}(torch.eye(2).to_sparse(), (3, 3), 2, 0) -> r.to_dense()
Tensor.resize_as_sparse_(torch.eye(2).to_sparse(), torch.eye(3).to_sparse()) -> r.to_dense()
Tensor.smm(torch.eye(2, 3).to_sparse(), f(3, 2))
Tensor.sspaddmm(torch.eye(2).to_sparse(), torch.eye(2, 3).to_sparse(), f(3, 2)) -> r.to_dense()
Tensor.{dequantize|int_repr|q_scale|q_zero_point|qscheme|q_per_channel_axis|q_per_channel_scales|
    q_per_channel_zero_points|to_mkldnn}(f(2, 3))
Tensor.to_padded_tensor(f(2, 3), 0.0)
""",
)

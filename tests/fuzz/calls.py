"""The calls that random programs are made of: templates by family, and what stands for a slot in braces.

A family is a text with one template per line. `{a|b|c}` is one of these words,
    any other slot is filled by `writer.Writer`:
the first of `{x} {f} {c} {l} {b} {m} {s} {v} {img} {q}` names the *subject*, a live tensor (any, floating, floating or
complex, integer, boolean, of two or more dimensions, square, with one dimension, an image, that requires grad),
    and later
ones name it again. `{y}` broadcasts with the subject or is a number, `{ty}` is such a tensor, `{same}` has its shape,
`{other}` is any tensor, `{right}` fits on its right side in a product. `{d}` is a dimension of the subject (bound once),
`{e}` another, `{ds}` several; `{n}` a number, `{k}` a small int, `{size}` a shape, `{dtype}` a dtype,
    `{index}` what may stand
between brackets, `{rows}` a tensor of places along `{d}`, `{where}` one of as many dimensions as the subject.
"""

from __future__ import annotations

import re

FAMILIES: dict[str, tuple[int, list[str]]] = {}
"""Weight and templates by the family's name."""


def family(name: str, weight: int, templates: str) -> None:
    """Add a family. A line that begins with blanks continues the one before."""
    FAMILIES[name] = weight, re.sub(r"\n +", "", templates.strip()).split("\n")


family(
    "unary",
    8,
    """
torch.{abs|acos|acosh|angle|asin|asinh|atan|atanh|ceil|conj_physical|cos|cosh|deg2rad|digamma|erf|erfc|erfinv|exp|exp2|
    expm1|floor|frac|i0|isfinite|isinf|isnan|isneginf|isposinf|isreal|lgamma|log|log10|log1p|log2|logical_not|logit|
    nan_to_num|neg|positive|rad2deg|reciprocal|relu|round|rsqrt|sigmoid|sign|signbit|sgn|sin|sinc|sinh|sqrt|square|tan|
    tanh|trunc}({x})
{x}.{abs|ceil|cos|erf|exp|expm1|floor|frac|log1p|neg|reciprocal|relu|round|sigmoid|sign|sin|sqrt|square|tanh|trunc|tan|
    logical_not|nan_to_num|sinh|sgn|lgamma|digamma|erfinv|exp2|log2|rsqrt|asin|atan|acosh|i0|logit|deg2rad}_()
torch.special.{entr|erfcx|i0e|i1|i1e|ndtri|ndtr|log_ndtr|expit|bessel_j0|bessel_j1|bessel_y0|bessel_y1|
    modified_bessel_i0|modified_bessel_i1|modified_bessel_k0|modified_bessel_k1|scaled_modified_bessel_k0|
    scaled_modified_bessel_k1|spherical_bessel_j0|airy_ai|gammaln|psi|exp2|expm1|log1p|round|sinc}({x})
torch.nn.functional.{gelu|silu|elu|selu|celu|leaky_relu|hardtanh|hardswish|hardsigmoid|softplus|softsign|softshrink|
    hardshrink|tanhshrink|logsigmoid|mish|relu6|relu}({x})
torch.nn.functional.{elu|leaky_relu|softshrink|hardshrink|celu}({x}, {n})
torch.nn.functional.{softplus|hardtanh|threshold}({x}, {n}, {n})
torch.nn.functional.gelu({x}, approximate='{tanh|none|fast}')
torch.nn.functional.{elu|selu|celu|leaky_relu|hardtanh|relu6|silu|mish|hardswish|hardsigmoid}({x}, inplace=True)
torch.round({x}, decimals={k})
torch.logit({x}, {0.1|1e-6|0.0|None})
torch.clamp({x}, {n}, {n})
torch.polygamma({0|1|2|3}, {x})
torch.mvlgamma({x}, {1|2|3})
torch.nan_to_num({x}, {n}, {n}, {n})
torch.{real|imag|view_as_real|view_as_complex|resolve_conj|resolve_neg|conj|is_nonzero|clone|detach|bitwise_not|
    isreal}({x})
torch.frexp({x})
torch.{erf|sin|exp|ceil|isnan|sqrt|neg|sign|log|tanh|abs|floor|square|bitwise_not|logical_not|angle}({x}, out={other})
torch.{special.logsumexp|special.softmax|special.log_softmax}({x}, {d})
torch.special.multigammaln({x}, {1|2})
torch.{clamp_min|clamp_max}({x}, {y})
{x}.{clamp_|clip_}({n}, {n})
torch.fake_quantize_per_tensor_affine({f}, {0.1|0.5}, {0|2}, {-8|0}, {7|15})
""",
)

family(
    "binary",
    9,
    """
torch.{add|sub|mul|div|true_divide|floor_divide|remainder|fmod|pow|atan2|maximum|minimum|fmax|fmin|eq|ne|lt|le|gt|
    ge}({x}, {y})
torch.{logical_and|logical_or|logical_xor|bitwise_and|bitwise_or|bitwise_xor|bitwise_left_shift|bitwise_right_shift|
    copysign|hypot|nextafter|ldexp|logaddexp|logaddexp2|gcd|lcm|heaviside|xlogy|float_power|rsub}({x}, {y})
{x} {+|-|*|/|//|%|**|&|^|<<|>>|<|<=|>|>=|==|!=} {y}
{y} {+|-|*|/|//|%|**|&|^|<<|>>|<|<=|>|>=|==|!=} {x}
{x}.{add|sub|mul|div|pow|fmod|remainder|floor_divide|copy|logical_and|bitwise_or|bitwise_and|atan2|eq|lt|hypot|
    copysign|xlogy|bitwise_xor|logical_xor|ge|ne|true_divide|float_power|ldexp|heaviside|nextafter|gcd|lcm|
    bitwise_left_shift}_({y})
torch.{add|sub|rsub}({x}, {y}, alpha={n})
{x}.{add|sub}_({y}, alpha={n})
torch.div({x}, {y}, rounding_mode={None|'trunc'|'floor'})
{x}.div_({y}, rounding_mode={None|'trunc'|'floor'})
torch.{add|sub|mul|div|pow|eq|lt|atan2|maximum|remainder|copysign|logical_and|bitwise_xor|fmod|ge|hypot|xlogy|
    floor_divide}({x}, {y}, out={other})
torch.special.{xlog1py|zeta|xlogy|gammainc|gammaincc}({x}, {y})
torch.special.{chebyshev_polynomial_t|chebyshev_polynomial_u|hermite_polynomial_h|hermite_polynomial_he|
    laguerre_polynomial_l|legendre_polynomial_p}({x}, {0|1|2|3|5})
torch.{equal|allclose|isclose|dist|result_type|is_same_size}({x}, {y})
torch.isclose({x}, {same}, equal_nan={True|False})
{x} {+|*|-|/|**|&|//|%|<<|^}= {y}
torch.{igamma|igammac}({f}, {same})
torch.{maximum|minimum|fmax|complex|polar|cross|vdot|dot|inner}({x}, {same})
torch.result_type({x}, {n})
torch.{promote_types|can_cast}({x}.dtype, {dtype})
""",
)

family(
    "ternary",
    4,
    """
torch.where({x} > 0, {y}, {ty})
torch.where({b}, {y}, {y})
torch.where({x} > {n}, {n}, {n})
torch.where({x} != 0, {x}, {other}, out={other})
torch.lerp({x}, {ty}, {y})
{x}.lerp_({ty}, {n})
torch.{addcmul|addcdiv}({x}, {ty}, {ty}, value={n})
{x}.{addcmul_|addcdiv_}({ty}, {same}, value={n})
torch.clamp({x}, {y}, {y})
torch.clamp({x}, {min|max}={y})
{x}.masked_fill({ty} > 0, {y})
{x}.masked_fill_({x} > 0, {n})
torch.isin({x}, {y}, invert={True|False})
torch.{addcmul|addcdiv|lerp}({x}, {ty}, {ty}, out={other})
torch.nn.functional.prelu({f}, torch.tensor([0.25]))
torch.nn.functional.threshold_({f}, {n}, {n})
torch.broadcast_tensors({x}, {ty})
torch.broadcast_shapes({x}.shape, {ty}.shape)
""",
)

family(
    "reduce",
    9,
    """
torch.{sum|mean|prod|amax|amin|any|all|std|var|nansum|nanmean|count_nonzero|norm|argmax|argmin|max|min|median|
    nanmedian|aminmax|std_mean|var_mean|unique|unique_consecutive|msort|numel|cov|corrcoef|trace}({x})
torch.{sum|mean|amax|amin|any|all|std|var|nansum|nanmean|logsumexp|std_mean|var_mean|norm}({x}, {ds}, keepdim={True|
    False})
torch.{sum|mean|prod|any|all|argmax|argmin|max|min|median|nanmedian|mode|logsumexp|std|nansum|cummax|cummin}({x}, {d})
torch.{prod|argmax|argmin|max|min|median|mode|any|all|kthvalue}({x}, {d}, keepdim={True|False})
torch.{cumsum|cumprod|logcumsumexp|cummax|cummin|softmax|log_softmax|sort|argsort|unbind|unique|flip|squeeze|unsqueeze|
    diff}({x}, dim={d})
torch.{sum|mean|prod|cumsum|cumprod|nansum}({x}, {d}, dtype={dtype})
torch.{sum|mean|nansum|prod}({x}, dtype={dtype})
torch.{std|var|std_mean|var_mean}({x}, {ds}, correction={0|1|2|1.5}, keepdim={True|False})
torch.{norm|linalg.vector_norm}({x}, {0|1|2|3|0.5|float('inf')|-float('inf')|-1}, {ds}, keepdim={True|False})
torch.norm({x}, p={'fro'|'nuc'|1|2})
torch.{sort|argsort}({x}, dim={d}, descending={True|False}, stable={True|False})
torch.topk({x}, {0|1|2|3}, {d}, largest={True|False}, sorted={True|False})
torch.kthvalue({x}, {1|2|3}, {d})
torch.{quantile|nanquantile}({f}, {0.5|0.25|1.0|0.9}, {d}, keepdim={True|False}, interpolation='{linear|lower|higher|
    midpoint|nearest}')
torch.quantile({f}, torch.tensor([0.1, 0.6], dtype={f}.dtype), dim={d})
torch.{unique|unique_consecutive}({x}, return_inverse={True|False}, return_counts={True|False})
torch.{unique|unique_consecutive}({x}, return_inverse=True, return_counts=True, dim={d})
torch.{trapezoid|cumulative_trapezoid}({x}, dx={n}, dim={d})
torch.trapezoid({x}, {same}, dim={d})
torch.diff({x}, n={0|1|2}, dim={d}, prepend={same})
torch.renorm({x}, {1|2|0.5}, {d}, {1.5|0.1})
torch.{sum|mean|amax|any|cumsum|logsumexp|prod|std}({x}, {d}, out={other})
torch.histc({f}, bins={3|5}, min={-2|0}, max={2|0})
torch.bincount({l}.flatten().abs(), minlength={0|3|8})
torch.bincount({l}.flatten().abs(), weights=torch.ones({l}.numel()))
torch.bucketize({x}, torch.tensor([-1.0, 0.0, 1.0]), right={True|False}, out_int32={True|False})
torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0, 2.0]), {x}, side='{left|right}')
torch.searchsorted({f}.sort(-1)[0], {f})
torch.{nn.functional.softmax|nn.functional.log_softmax|nn.functional.softmin}({x}, {d}, dtype={dtype})
torch.nn.functional.normalize({x}, p={1|2|3}, dim={d})
torch.nn.functional.glu({x}, {d})
torch.histogram({f}, {3|4})
torch.combinations({v}, {1|2|3}, with_replacement={True|False})
torch.segment_reduce({f}, '{sum|mean|max|min}', lengths=torch.tensor([{f}.shape[0]]))
torch.gradient({x}, spacing={1|2.0|0.5}, dim={d}, edge_order={1|2})
{x}.{cumsum_|cumprod_}({d})
""",
)

family(
    "view",
    10,
    """
{x}.{reshape|view}({shape})
{x}.flatten({d}, {e})
{x}.{T|mT|H|mH|real|imag|data}
{x}.{squeeze|t|ravel|flatten|contiguous|detach|conj|adjoint|alias|unbind|clone|nonzero|matrix_H|resolve_conj}()
{x}.{squeeze|unsqueeze|unbind|select}({d})
{x}.select({d}, {k})
{x}.narrow({d}, {k}, {0|1|2})
{x}.{transpose|swapaxes|swapdims|movedim|moveaxis}({d}, {e})
{x}.permute({order})
{x}.expand({expanded})
{x}.{expand_as|view_as|reshape_as}({other})
{x}.{chunk|split|tensor_split|unsafe_chunk|unsafe_split}({1|2|3}, {d})
{x}.split([{0|1|2}, {1|2}], {d})
{x}.unfold({d}, {0|1|2|3}, {1|2|3})
{x}.diagonal({k}, {d}, {e})
{x}.view({dtype})
{x}.as_strided({size}, {strides}, {0|1|None})
{x}[{index}]
{x}[{index}]
{x}[{index}]
{x}[{index}]
{x}[{index}] = {n}
{x}[{index}] = {y}
{x}[{index}] = {ty}
{x}[{index}] {+|*|-}= {n}
{x}.unflatten({d}, {(1, -1)|(-1, 1)|(2, -1)|(-1,)})
torch.{atleast_1d|atleast_2d|atleast_3d}({x})
{x}.{hsplit|vsplit|dsplit}({1|2})
{x}.{contiguous|to|clone}(memory_format=torch.{channels_last|contiguous_format|preserve_format})
{x}.{squeeze_|t_|detach_}()
{x}.{unsqueeze_|squeeze_}({d})
{x}.{transpose_|swapaxes_}({d}, {e})
{x}.movedim({ds}, {ds})
torch.{select_copy|unsqueeze_copy|squeeze_copy|unbind_copy}({x}, {d})
torch.squeeze({x}, {ds})
torch.view_copy({x}, {shape})
{x}.broadcast_to({expanded})
torch.{permute_copy|diagonal_copy|t_copy|alias_copy|detach_copy}({x})
{x}.as_strided_({size}, {strides})
{x}.resize_({size}).fill_({n})
{x}.set_({other})
{x}.swapdims_({d}, {e})
{x}.tensor_split({[1]|[1, 2]|[0]|[-1]|(1, 1)}, {d})
""",
)

family(
    "move",
    9,
    """
torch.cat([{x}, {same}], {d})
torch.cat([{x}, {other}, {x}], {d})
torch.stack([{x}, {same}], {d})
torch.{hstack|vstack|dstack|column_stack|row_stack}([{x}, {same}])
torch.block_diag({x}, {other})
{x}.repeat({repeats})
torch.tile({x}, {repeats})
torch.repeat_interleave({x}, {0|1|2|3}, {d})
torch.repeat_interleave({x}, {2|3})
torch.repeat_interleave({x}, torch.arange({x}.shape[{d}]), {d})
{x}.index_select({d}, {rows})
torch.gather({x}, {d}, {where})
{x}.{scatter|scatter_}({d}, {where}, {n})
{x}.{scatter|scatter_|scatter_add|scatter_add_}({d}, {where}, {x})
{x}.scatter({d}, {where}, {n}, reduce='{add|multiply}')
{x}.{scatter_reduce|scatter_reduce_}({d}, {where}, {x}, '{sum|prod|mean|amax|amin}', include_self={True|False})
{x}.{index_add|index_add_}({d}, {rows}, {x}.index_select({d}, {rows}), alpha={n})
{x}.{index_copy|index_copy_}({d}, {rows}, {x}.index_select({d}, {rows}))
{x}.{index_fill|index_fill_}({d}, {rows}, {n})
{x}.index_reduce({d}, {rows}, {x}.index_select({d}, {rows}), '{prod|mean|amax|amin}', include_self={True|False})
{x}.take({flat})
{x}.{put|put_}({flat}, {flat}.to({x}.dtype), accumulate={True|False})
torch.take_along_dim({x}, {x}.argsort({d}), {d})
{x}.masked_select({ty} > 0)
{x}.{masked_scatter|masked_scatter_}({x} > 0, {other})
torch.{argwhere|nonzero|fliplr|flipud|diagflat|count_nonzero}({x})
torch.nonzero({x}, as_tuple=True)
{x}.{index_put|index_put_}(({rows0},), {y}, accumulate={True|False})
torch.{tril|triu|diag|diag_embed}({x}, {k})
torch.diag_embed({x}, {k}, {d}, {e})
{x}.{tril_|triu_}({k})
torch.rot90({x}, {k}, ({d}, {e}))
torch.roll({x}, {k}, {d})
torch.roll({x}, ({k}, {k}), ({d}, {e}))
torch.flip({x}, {ds})
torch.select_scatter({x}, {x}.select({d}, 0), {d}, 0)
torch.slice_scatter({x}, {x}.narrow({d}, 0, 1), {d}, 0, 1)
torch.diagonal_scatter({x}, {x}.diagonal(), 0)
torch.as_strided_scatter({x}, {x}.as_strided({size}, {strides}).clone(), {size}, {strides})
{x}.to({dtype})
{x}.{float|double|half|bfloat16|int|long|bool|char|short|byte|cfloat}()
{x}.{type_as|to}({other})
torch.meshgrid({v}, {v}, indexing='{ij|xy}')
torch.cartesian_prod({v}, {v})
torch.vander({v}, {None|2|4}, increasing={True|False})
torch.nn.functional.one_hot({l}.abs() % 4)
torch.nn.functional.pad({x}, {pads}, value={n})
torch.nn.functional.pad({f}, {(1, 1)|(1, 0)|(2, 1)|(1, 1, 1, 0)}, mode='{reflect|replicate|circular}')
{x}.fill_({n})
{x}.{copy_|fill_}({ty})
{x}.fill_diagonal_({n}, wrap={True|False})
{x}.{zero_|sign_|relu_}()
torch.cat([{x}, {same}], {d}, out={other})
torch.{gather|index_select}({x}, {d}, {rows}, out={other})
torch.stack([{x}, {same}], 0, out={other})
{x}.new_{zeros|ones}({size})
{x}.new_full({size}, {n}, dtype={dtype})
{x}.new_tensor({n})
torch.{zeros_like|ones_like}({x}, dtype={dtype})
torch.full_like({x}, {n})
torch.channel_shuffle({img}, 1)
torch.nn.functional.embedding({l}.abs() % 3, torch.arange(12.0).reshape(3, 4))
torch.nn.functional.embedding({rows}, {x})
torch.nn.functional.embedding_bag(torch.tensor([0, 1, 1]), torch.ones(3, 2), torch.tensor([0, 2]), mode='{sum|mean|
    max}')
torch.constant_pad_nd({x}, {pads}, {n})
torch.tril_indices({0|1|3}, {0|2|4}, {k})
torch.triu_indices({0|1|3}, {0|2|4}, {k})
torch.unravel_index({flat}, {size})
torch.broadcast_to({x}, {expanded})
""",
)

family(
    "product",
    6,
    """
torch.matmul({x}, {right})
{m} @ {right}
torch.{mm|bmm|mv|dot|inner}({x}, {right})
torch.outer({v}, {v})
torch.{addmm|baddbmm|addmv|addbmm|addr}({other}, {m}, {right}, beta={n}, alpha={n})
torch.einsum('...i,...i->...', {x}, {same})
torch.einsum('ij,kj->ik', {m}, {same})
torch.einsum('{ii->i|ij->ji|ij->|...ij->...ji|ij->j}', {m})
torch.tensordot({x}, {same}, {dims})
torch.nn.functional.linear({x}, {same})
torch.nn.functional.bilinear({m}, {same}, torch.ones(2, {m}.shape[-1], {m}.shape[-1]))
torch.kron({x}, {other})
torch.matrix_power({s}, {k})
torch.linalg.matrix_power({s}, {k})
torch.chain_matmul({m}, {right})
torch.linalg.multi_dot([{m}, {right}])
torch.matmul({m}, {right}, out={other})
{m}.{addmm_|baddbmm_}({m}, {right})
torch.cross({x}, {same}, dim={d})
torch.cdist({m}, {same}, p={1.0|2.0|0.0|3.0|float('inf')})
torch.nn.functional.{cosine_similarity|pairwise_distance}({f}, {same})
torch.nn.functional.pdist({m})
torch.linalg.{cross|vecdot}({x}, {same}, dim={d})
""",
)

family(
    "linalg",
    4,
    """
torch.linalg.{det|slogdet|inv|cond|eigvalsh|svdvals|matrix_rank|pinv|matrix_exp|inv_ex|cholesky_ex}({s})
torch.linalg.det({s} + torch.eye({s}.shape[-1]) * 3)
torch.linalg.inv({s} + torch.eye({s}.shape[-1]) * 3)
torch.linalg.cholesky({s} @ {s}.mH + torch.eye({s}.shape[-1]))
torch.linalg.solve({s} + torch.eye({s}.shape[-1]) * 4, {right})
torch.linalg.solve_triangular({s}.triu() + torch.eye({s}.shape[-1]) * 4, {right}, upper=True)
torch.linalg.{norm|matrix_norm|vector_norm}({m})
torch.linalg.{norm|matrix_norm}({m}, {1|-1|2|-2|float('inf')|'fro'|'nuc'})
torch.linalg.eigh({s} + {s}.mH)[0]
torch.linalg.qr({m}, mode='{reduced|complete|r}')[1].abs()
torch.linalg.svd({m}, full_matrices={True|False})[1]
torch.linalg.lstsq({m}, {m}).solution
torch.linalg.lu_factor({s} + torch.eye({s}.shape[-1]) * 3)
torch.linalg.ldl_factor({s} + {s}.mH)
torch.linalg.{diagonal|matrix_exp}({m})
torch.linalg.vander({v}, N={None|2|3})
torch.linalg.tensorinv({s}, ind={1|2})
torch.linalg.householder_product({m}, torch.ones({m}.shape[-1]))
torch.logdet({s} @ {s}.mH + torch.eye({s}.shape[-1]))
torch.triangular_solve({m}, {m})
torch.cholesky_inverse({s}.tril() + torch.eye({s}.shape[-1]))
torch.lu_solve({m}, *torch.linalg.lu_factor(torch.eye({m}.shape[-2])))
""",
)

family(
    "fft",
    3,
    """
torch.fft.{fft|ifft|rfft|irfft|hfft|ihfft}({x}, {None|0|1|2|3|4|5|7}, {d}, {None|'ortho'|'forward'|'backward'})
torch.fft.{fft2|ifft2|rfft2|irfft2}({m})
torch.fft.{fftn|ifftn|rfftn|irfftn|hfftn|ihfftn}({x})
torch.fft.{fftn|ifftn|rfftn|irfftn}({x}, dim={ds}, norm={None|'ortho'})
torch.fft.{fftshift|ifftshift}({x}, {ds})
torch.fft.{fftfreq|rfftfreq}({1|4|5})
torch.stft({v}, {2|4}, hop_length={1|2}, return_complex=True, center={True|False})
torch.istft(torch.stft({v}, 4, return_complex=True), 4)
""",
)

family(
    "layers",
    7,
    """
torch.nn.functional.layer_norm({f}, {f}.shape[-1:])
torch.nn.functional.batch_norm({f}, torch.zeros({channels}), torch.ones({channels}), training={True|False},
    momentum={0.1|0.5})
torch.nn.functional.batch_norm({f}, None, None, torch.ones({channels}), torch.zeros({channels}), True)
torch.nn.functional.instance_norm({f})
torch.nn.functional.group_norm({f}, {1|2})
torch.nn.functional.rms_norm({f}, {f}.shape[-1:])
torch.nn.functional.local_response_norm({f}, {1|2|3})
torch.nn.functional.conv1d({f}, torch.ones(2, {channels}, {1|2|3}), stride={1|2}, padding={0|1|'same'|'valid'})
torch.nn.functional.conv2d({img}, torch.ones(2, {ichannels}, {1|2|3}, {1|2|3}), torch.ones(2), stride={1|2|(1, 2)},
    padding={0|1|(1, 0)|'same'}, dilation={1|2})
torch.nn.functional.conv2d({img}, torch.ones(2 * {ichannels}, 1, 2, 2), groups={ichannels})
torch.nn.functional.conv_transpose1d({f}, torch.ones({channels}, 2, {1|2|3}), stride={1|2}, padding={0|1})
torch.nn.functional.conv_transpose2d({img}, torch.ones({ichannels}, 2, {1|2}, {1|2}), stride={1|2}, output_padding={0|
    1})
torch.nn.functional.{max_pool1d|avg_pool1d}({f}, {1|2|3}, {1|2})
torch.nn.functional.max_pool2d({img}, {1|2|3}, {1|2}, {0|1}, ceil_mode={True|False}, return_indices={True|False})
torch.nn.functional.avg_pool2d({img}, {1|2|3}, {1|2}, {0|1}, ceil_mode={True|False}, count_include_pad={True|False})
torch.nn.functional.lp_pool2d({img}, 2, {1|2})
torch.nn.functional.{adaptive_avg_pool1d|adaptive_max_pool1d}({f}, {1|2|3})
torch.nn.functional.{adaptive_avg_pool2d|adaptive_max_pool2d}({img}, ({1|2|None}, {1|2|3}))
torch.nn.functional.interpolate({img}, scale_factor={2|1.5|0.5|(2, 1)}, mode='{nearest|bilinear|bicubic|area|
    nearest-exact}')
torch.nn.functional.interpolate({img}, size={3|(2, 4)|(1, 1)}, mode='{nearest|bilinear|bicubic}', align_corners={None|
    True|False})
torch.nn.functional.interpolate({f}, size={3|5}, mode='{linear|nearest}')
torch.nn.functional.unfold({img}, {1|2}, padding={0|1}, stride={1|2}, dilation={1|2})
torch.nn.functional.fold(torch.nn.functional.unfold({img}, 2), {img}.shape[-2:], 2)
torch.nn.functional.{pixel_shuffle|pixel_unshuffle|channel_shuffle}({img}, {1|2})
torch.nn.functional.grid_sample({img}, torch.linspace(-1.2, 1.2, 16).reshape(2, 2, 2, 2)[:{img}.shape[0]],
    mode='{bilinear|nearest|bicubic}', padding_mode='{zeros|border|reflection}', align_corners={True|False})
torch.nn.functional.affine_grid(torch.eye(2, 3).expand(2, 2, 3), (2, 1, 2, 3), align_corners={True|False})
torch.nn.functional.scaled_dot_product_attention({f}, {same}, {same}, is_causal={True|False})
torch.nn.functional.scaled_dot_product_attention({f}, {f}, {f}, attn_mask=torch.ones({f}.shape[-2],
    {f}.shape[-2]).tril() > 0)
torch.nn.functional.{dropout|alpha_dropout|feature_alpha_dropout|dropout1d|dropout2d}({f}, {0.0|0.3|1.0})
torch.nn.functional.dropout({f}, {0.3|0.5}, training={True|False}, inplace={True|False})
torch.nn.functional.{rrelu|gumbel_softmax}({f})
torch.nn.functional.rrelu({f}, training=True)
""",
)

family(
    "losses",
    5,
    """
torch.nn.functional.{mse_loss|l1_loss|smooth_l1_loss|huber_loss|kl_div|soft_margin_loss|hinge_embedding_loss|
    poisson_nll_loss|binary_cross_entropy_with_logits|multilabel_soft_margin_loss}({f}, {same}, reduction='{mean|sum|
    none}')
torch.nn.functional.smooth_l1_loss({f}, {same}, beta={0.0|0.5|2.0})
torch.nn.functional.huber_loss({f}, {same}, delta={0.5|2.0})
torch.nn.functional.kl_div({f}, {same}, log_target={True|False}, reduction='{batchmean|sum|none}')
torch.nn.functional.binary_cross_entropy({f}.sigmoid(), {same}.sigmoid(), reduction='{mean|sum|none}')
torch.nn.functional.cross_entropy({f}, {same}.softmax(-1), reduction='{mean|sum|none}', label_smoothing={0.0|0.1})
torch.nn.functional.cross_entropy({f}, {classes}, reduction='{mean|sum|none}', ignore_index={-100|0},
    label_smoothing={0.0|0.1})
torch.nn.functional.nll_loss({f}, {classes}, reduction='{mean|sum|none}', ignore_index={-100|0})
torch.nn.functional.cross_entropy({f}, {classes}, weight=torch.arange(1.0, {channels} + 1))
torch.nn.functional.{margin_ranking_loss|cosine_embedding_loss|gaussian_nll_loss}({f}, {same}, {same}.sign().abs())
torch.nn.functional.triplet_margin_loss({f}, {same}, {same} * 2, p={1|2}, swap={True|False}, reduction='{mean|none}')
torch.nn.functional.multi_margin_loss({f}, {classes}, p={1|2}, margin={1.0|0.5})
torch.nn.functional.multilabel_margin_loss({f}, {classes})
torch.nn.functional.ctc_loss({f}.log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([{f}.shape[0]]),
    torch.tensor([2]))
""",
)

family(
    "random",
    3,
    """
torch.{rand|randn}({size}, dtype={dtype})
torch.randint({0|-3}, {1|3|10|300}, {size}, dtype={dtype})
torch.randperm({0|1|5|9}, dtype={dtype})
torch.{rand_like|randn_like}({x})
torch.randint_like({x}, {3|100})
torch.bernoulli({f}.sigmoid())
torch.normal({n}, {0.5|1.0|2}, {size})
torch.normal({f}, {f}.abs())
torch.multinomial({f}.abs() + 0.1, {1|2|3}, replacement={True|False})
torch.poisson({f}.abs())
{x}.{uniform_|normal_|exponential_|cauchy_|log_normal_|bernoulli_|random_}()
{x}.uniform_({-1|0}, {1|2})
{x}.normal_({n}, {0.5|2})
{x}.{bernoulli_|geometric_}({0.3|0.7})
{x}.random_({0|-5|3}, {9|100|4})
torch.nn.init.{xavier_uniform_|kaiming_normal_|orthogonal_|trunc_normal_|normal_|uniform_|eye_|sparse_}({f}.detach())
torch.manual_seed({1|2|3}).initial_seed()
torch.binomial({f}.abs().round(), {f}.sigmoid())
""",
)

family(
    "make",
    4,
    """
torch.{zeros|ones|empty}({size}, dtype={dtype}).fill_({n})
torch.full({size}, {n}, dtype={dtype})
torch.full({size}, {n})
torch.arange({n}, {5|9.5|3|-4}, {1|2|0.5|-1|0.3})
torch.arange({0|1|-2}, {5|7}, {1|2|3}, dtype={dtype})
torch.{linspace|logspace}({n}, {1|2|-1.5}, {0|1|2|5|9}, dtype={dtype})
torch.eye({0|1|3}, {1|2|4}, dtype={dtype})
torch.tensor({n}, dtype={dtype})
torch.tensor([[{n}, {n}], [{n}, {n}]])
torch.scalar_tensor({n}, dtype={dtype})
torch.as_tensor({other}, dtype={dtype})
torch.empty_strided({size}, {strides}).fill_({n})
torch.{hann_window|hamming_window|blackman_window|bartlett_window|kaiser_window}({0|1|5|6}, periodic={True|False})
torch.complex({f}, {same})
torch.zeros({size}).{bool|int|to_sparse().to_dense}()
torch.from_numpy({other}.detach().cpu().numpy())
torch.tensor({x}.tolist())
torch.asarray({x}, dtype={dtype}, copy={None|True})
torch.zeros({size}, requires_grad=True)
""",
)

family(
    "gradient",
    7,
    """
{q}.sum().backward()
{q}.abs().sum().backward(retain_graph=True)
{q}.backward(torch.ones_like({q}))
torch.autograd.grad({q}.pow(2).sum(), {leaf}, create_graph=True, allow_unused=True)
torch.autograd.grad({q}, [{leaf}], torch.ones_like({q}), retain_graph=True)
torch.autograd.grad({q}.sum(), {leaf}, retain_graph=True, allow_unused={True|False})
torch.autograd.grad({q}.sin().sum(), {leaf}, create_graph=True, allow_unused=True)
{leaf}.grad
{leaf}.grad.zero_()
setattr({leaf}, 'grad', None)
{q}.retain_grad()
{x}.requires_grad_({True|False})
{q}.detach().mul_({n})
torch.func.grad(lambda q: (q * {n}).sin().sum())({f})
torch.func.grad(lambda q: torch.func.grad(lambda r: r.pow(3).sum())(q).sum())({f})
torch.func.{jacrev|jacfwd}(lambda q: q.cumsum(0))({f})
torch.func.hessian(lambda q: q.pow(3).sum())({f})
torch.func.vjp(torch.{sin|exp|tanh|abs|sqrt}, {f})[1]({f})
torch.autograd.functional.jacobian(lambda q: q * 2, {f})
""",
)

family(
    "query",
    3,
    """
{x}.{item|tolist|is_contiguous|storage_offset|stride|dim|numel|element_size|is_floating_point|is_complex|is_signed|
    nelement|size|data_ptr().__bool__|dim_order|is_conj|is_neg|is_inference|has_names|get_device}()
repr({x})
str({x})
{x}.is_contiguous(memory_format=torch.channels_last)
{len|bool|float|int|complex|list}({x})
{x}.untyped_storage().nbytes()
{x}.{is_leaf|_version|requires_grad|dtype|shape|ndim|itemsize|nbytes|layout|is_sparse|grad_fn is None|_base is None|
    is_meta|device.type|names}
torch.{is_nonzero|is_tensor|is_floating_point|is_complex|numel}({x})
torch.equal({x}, {same})
{x} in {x}
format({x}, '{|.3f}')
copy.deepcopy({x})
copy.copy({x})
pickle.loads(pickle.dumps({x}))
{x}.numpy().copy().tolist()
{x}.is_set_to({other})
{x}.{size|stride}({d})
torch.isin({n}, {x})
""",
)

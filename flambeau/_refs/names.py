"""The names that torch._refs and its modules have. Read by the modules beside this one."""

from __future__ import annotations

ROOT = """
    abs acos acosh asinh asin atan atanh bitwise_not ceil conj_physical cos cosh count_nonzero deg2rad digamma erf
    erfinv erfc exp expm1 exponential exp2 fill fill_ floor frac geometric index_add index_copy index_copy_
    index_select index_fill index_fill_ isfinite isinf isposinf isneginf isnan isreal i0 lerp lgamma log log1p log2
    log10 log_normal log_softmax mvlgamma norm normal nan_to_num neg positive rad2deg reciprocal round sigmoid sgn
    sign signbit sin sinc sinh softmax sqrt square tan tanh trace trunc add atan2 bitwise_and bitwise_left_shift
    bitwise_or bitwise_right_shift bitwise_xor clamp_min clamp_max copysign div eq float_power floor_divide fmax fmin
    fmod gcd ge gt heaviside hypot igamma igammac imag isclose lcm le logaddexp logaddexp2 logical_and logical_not
    logical_or logical_xor logsumexp lt maximum minimum mul ne nextafter pow real rpow remainder rsub rtruediv
    rfloordiv sub true_divide trunc_divide xlogy addcdiv addcmul clamp masked_fill masked_fill_ where clone copy_to
    item to all amax amin any cumsum cumprod mean dot vdot std std_mean sum sum_to_size prod var var_mean addr alias
    alias_copy atleast_1d atleast_2d atleast_3d as_strided as_strided_copy as_strided_scatter block_diag
    broadcast_shapes broadcast_tensors broadcast_to cat chunk column_stack conj constant_pad_nd contiguous diag_embed
    diag diagonal diagonal_copy diagonal_scatter dsplit dstack expand expand_as expand_copy flatten flip fliplr flipud
    hsplit hstack meshgrid movedim narrow narrow_copy native_group_norm native_layer_norm permute permute_copy ravel
    repeat reshape reshape_as roll rot90 rsqrt split_with_sizes stack swap_axes squeeze squeeze_copy t t_copy T
    take_along_dim tensor_split transpose transpose_copy unbind_copy unfold unfold_copy unsqueeze unsqueeze_copy view
    view_as view_copy vsplit vstack view_as_complex unflatten unbind triu tril triu_indices tril_indices arange cauchy
    empty empty_like empty_permuted empty_strided eye full full_like linspace logspace new_empty new_empty_strided
    new_full new_ones new_zeros ones ones_like randn scalar_tensor zero zeros zeros_like allclose equal bucketize
    is_complex renorm stft istft abs_ acos_ acosh_ add_ addcmul_ addcdiv_ asin_ asinh_ atan_ atanh_ atan2_
    bitwise_and_ bitwise_left_shift_ bitwise_not_ bitwise_or_ bitwise_right_shift_ bitwise_xor_ ceil_ clamp_
    clamp_min_ clamp_max_ conj_physical_ copysign_ cos_ cosh_ cumsum_ cumprod_ deg2rad_ digamma_ div_ eq_ erf_ erfc_
    erfinv_ exp_ exp2_ expm1_ float_power_ floor_ floor_divide_ fmod_ frac_ gcd_ ge_ gt_ heaviside_ hypot_ igamma_
    igammac_ i0_ lcm_ le_ lerp_ lgamma_ log10_ log1p_ log2_ log_ logical_and_ logical_not_ logical_or_ logical_xor_
    lt_ mul_ mvlgamma_ nan_to_num_ ne_ neg_ nextafter_ pow_ rad2deg_ reciprocal_ remainder_ rsqrt_ sgn_ sigmoid_ sign_
    sin_ sinc_ sinh_ sqrt_ square_ sub_ tan_ tanh_ tril_ triu_ true_divide_ trunc_ xlogy_ cauchy_ exponential_
    geometric_ log_normal_ zero_ frexp select_scatter tensor
""".split()
FUNCTIONAL = """
    alpha_dropout celu celu_ channel_shuffle dropout elu elu_ gelu glu group_norm hardshrink hardtanh
    hinge_embedding_loss huber_loss l1_loss layer_norm leaky_relu log_softmax margin_ranking_loss mish mish_ mse_loss
    nll_loss pairwise_distance pdist poisson_nll_loss prelu relu relu6 selu selu_ smooth_l1_loss softmax softmin
    softplus softshrink tanhshrink threshold threshold_ triplet_margin_loss hardsigmoid pixel_shuffle pixel_unshuffle
""".split()
SPECIAL = """
    bessel_j0 bessel_j1 entr erfcx expit i0e i1 i1e log_ndtr logit log_softmax multigammaln ndtr ndtri softmax
    spherical_bessel_j0 xlog1py zeta
""".split()

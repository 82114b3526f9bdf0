"""Convolutions in one to three dimensions, and transposed ones, with gradients of every order.

Stands on codegen.convolution.conv. Three linear operators are closed under differentiation: the convolution, the gradient of its
input (which is the transposed convolution) and the gradient of its weight; each is the derivative of the others. conv1d, conv2d
... check and complete their arguments and call `convolution`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base import geometry, memory_order
from flambeau.base.dtype import DIMENSIONED, ZERO_DIM, promote_types, result_dtype
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, register_cache
from flambeau.base.warn import warn_once
from flambeau.codegen.convolution.extents import Convolution, flat
from flambeau.codegen.convolution.halo import Tensor5
from flambeau.codegen.convolution.steps import Convolve, ConvolveInput, ConvolveWeight
from flambeau.codegen.plan import Plan
from flambeau.codegen.targets import lowered
from flambeau.core.modes.autocast import lower
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import Product, described
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor

Numbers = tuple[int, ...]
_plans: dict[Any, Callable] = register_cache({})


def _three(values: Numbers, fill: int) -> tuple[int, int, int]:
    return (fill,) * (3 - len(values)) + tuple(values)  # type: ignore[return-value]


def _five(slot: int, layout: Layout) -> Tensor5:
    """Strides over (image, channel, z, y, x); dimensions that are not there have stride 0."""
    s = layout.strides
    return Tensor5(slot, (s[0], s[1], *((0,) * (5 - len(s))), *s[2:]))


def _run(key: tuple, make: Callable, tensors: tuple[Tensor, ...], out: Layout, work: int) -> Tensor:
    launch = _plans.get(key)
    if launch is None:
        launch = lowered(Plan([make()], [out], [t._layout for t in tensors], release=work >= RELEASE_FROM))
        _plans[key] = launch
    return launch(None, *tensors)


def output_size(size: Numbers, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers) -> Numbers:
    """Extents of a convolution's result."""
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(size, kernel, stride, padding, dilation))


def _agree(x: Layout, w: Layout, y: Layout, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int) -> None:
    """RuntimeError unless input, weight and result go together: a tensor that a graph saved may have got other data."""
    n = len(stride)
    if not (
        x.ndim == w.ndim == y.ndim == n + 2
        and x.dtype is w.dtype is y.dtype
        and x.shape[0] == y.shape[0]
        and x.shape[1] == w.shape[1] * groups
        and y.shape[1] == w.shape[0]
        and w.shape[0] % groups == 0
        and all(a <= b for a, b in zip(y.shape[2:], output_size(x.shape[2:], w.shape[2:], stride, padding, dilation)))
    ):
        raise RuntimeError(
            f"a convolution of an input of shape {list(x.shape)} with a weight of shape {list(w.shape)} has "
            f"no result or gradient of shape {list(y.shape)}"
        )


def _extents(x: Layout, w: Layout, y: Layout, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int) -> Convolution:
    return Convolution(
        x.shape[0],
        x.shape[1],
        w.shape[0],
        _three(x.shape[2:], 1),
        _three(w.shape[2:], 1),
        _three(stride, 1),
        _three(padding, 0),
        _three(dilation, 1),
        groups,
        _three(y.shape[2:], 1),
    )


def _result_layout(shape: tuple[int, ...], x: Layout, w: Layout) -> Layout:
    """In C order, or channels_last for images where the input or the weight is."""
    if memory_order.suggests_channels_last(x.shape, x.strides) or memory_order.suggests_channels_last(w.shape, w.strides):
        return Layout.of(shape, memory_order.channels_last_strides(shape), x.dtype, x.device)
    return Layout.contiguous(shape, x.dtype, x.device)


@operator(node="ConvolutionBackward0", method=False, function=False, jvp=Product("input", "weight", "bias", channels=True))
def _convolve(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int
) -> Tensor:
    """The convolution itself; arguments are complete and checked."""
    x, own = input._layout, weight._layout
    if not own.is_contiguous:
        weight = weight.contiguous()
    tensors = (input, weight) if bias is None else (input, weight, bias.contiguous())
    key = ("forward", x, own, bias is not None, stride, padding, dilation, groups)
    launch = _plans.get(key)
    if launch is not None:
        return launch(None, *tensors)
    w = weight._layout
    size, kernel = x.shape[2:], w.shape[2:]
    result = output_size(size, kernel, stride, padding, dilation)
    if not x.shape[1]:  # nothing comes of no channels: not even the bias, as in PyTorch
        return NAMESPACE["empty"]((x.shape[0], 0, *result), dtype=x.dtype, device=x.device)
    out = _result_layout((x.shape[0], w.shape[0], *result), x, own)

    def make():
        _agree(x, w, out, stride, padding, dilation, groups)
        return Convolve(
            x.dtype,
            _extents(x, w, out, stride, padding, dilation, groups),
            _five(1, x),
            2,
            _five(0, out),
            None if bias is None else 3,
        )

    return _run(key, make, tensors, out, out.numel * w.numel // max(w.shape[0], 1))


@_convolve.vjp
def _(g, input, weight, stride, padding, dilation, groups, need):
    if not input._layout.shape[1]:
        outputs = weight._layout.shape[:1]
        return tuple(
            [
                NAMESPACE["zeros"](shape, dtype=g._layout.dtype, device=g._layout.device) if need[name] else None
                for name, shape in (("input", input.shape), ("weight", weight.shape), ("bias", outputs))
            ]
        )
    return (
        _gradient_of_input(g, weight, None, tuple(input.shape[2:]), stride, padding, dilation, groups) if need["input"] else None,
        _gradient_of_weight(input, g, tuple(weight.shape[2:]), stride, padding, dilation, groups) if need["weight"] else None,
        _sum_channels(g) if need["bias"] else None,
    )


def _sum_channels(g: Tensor) -> Tensor:
    return g.sum([0, *range(2, g._layout.ndim)])


@operator(node="ConvolutionBackward0", method=False, function=False, jvp=Product("grad", "weight", "bias", channels=True))
def _gradient_of_input(
    grad: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    size: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    groups: int,
) -> Tensor:
    """What a gradient of the result makes of the input, whose extents are `size`; also the transposed convolution."""
    y, own = grad._layout, weight._layout
    if not own.is_contiguous:
        weight = weight.contiguous()
    tensors = (grad, weight) if bias is None else (grad, weight, bias.contiguous())
    key = ("input", y, own, bias is not None, size, stride, padding, dilation, groups)
    launch = _plans.get(key)
    if launch is not None:
        return launch(None, *tensors)
    w = weight._layout
    out = _result_layout((y.shape[0], w.shape[1] * groups, *size), y, own)

    def make():
        _agree(out, w, y, stride, padding, dilation, groups)
        return ConvolveInput(
            y.dtype,
            _extents(out, w, y, stride, padding, dilation, groups),
            _five(1, y),
            2,
            _five(0, out),
            None if bias is None else 3,
        )

    return _run(key, make, tensors, out, y.numel * w.numel // max(w.shape[0], 1))


@_gradient_of_input.vjp
def _(g, grad, weight, stride, padding, dilation, groups, need):
    return (
        _convolved_like(grad, g, weight, stride, padding, dilation, groups) if need["grad"] else None,
        _gradient_of_weight(g, grad, tuple(weight.shape[2:]), stride, padding, dilation, groups) if need["weight"] else None,
        _sum_channels(g) if need["bias"] else None,
    )


@operator(node="ConvolutionBackward0", method=False, function=False, jvp=Product("input", "grad"))
def _gradient_of_weight(
    input: Tensor, grad: Tensor, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int
) -> Tensor:
    """What a gradient of the result makes of the weight, whose extents are `kernel`."""
    y = grad._layout
    if y.strides[1] != 1 or flat(_five(2, y).strides, _three(y.shape[2:], 1)) is None:
        grad = grad.contiguous()
    x, y = input._layout, grad._layout
    out = Layout.contiguous((y.shape[1], x.shape[1] // groups, *kernel), x.dtype, x.device)
    key = ("weight", x, y, kernel, stride, padding, dilation, groups)

    def make():
        _agree(x, out, y, stride, padding, dilation, groups)
        extents = _extents(x, out, y, stride, padding, dilation, groups)
        return ConvolveWeight(x.dtype, extents, _five(1, x), _five(2, y), 0)

    return _run(key, make, (input, grad), out, y.numel * out.numel // max(out.shape[0], 1))


@_gradient_of_weight.vjp
def _(g, input, grad, stride, padding, dilation, groups, need):
    return (
        _gradient_of_input(grad, g, None, tuple(input.shape[2:]), stride, padding, dilation, groups) if need["input"] else None,
        _convolved_like(grad, input, g, stride, padding, dilation, groups) if need["grad"] else None,
    )


def _convolved_like(
    grad: Tensor, input: Tensor, weight: Tensor, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int
) -> Tensor:
    """A convolution in the extents of `grad`; output_padding beyond the stride makes more than there was."""
    made = _convolve(input, weight, None, stride, padding, dilation, groups)
    for dim in range(2, made._layout.ndim):
        if made._layout.shape[dim] > grad._layout.shape[dim]:
            made = made.narrow(dim, 0, grad._layout.shape[dim])
    return made


# ---------------------------------------------------------------- arguments


def expand_argument(name: str, value: Any, n: int) -> Numbers:
    """A number for all dimensions, or one each."""
    if isinstance(value, int):
        return (value,) * n
    values = geometry.int_tuple(value)
    if len(values) == 1:
        return values * n
    if len(values) != n:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {n} values to match the "
            "convolution dimensions, "
            f"but got {name}={list(values)}"
        )
    return values


def _type_title(layout: Layout) -> str:
    dtype = layout.dtype
    by_backend = dtype.is_complex or dtype.name == "bfloat16"
    return f"CPU{dtype.scalar_name}Type" if by_backend else f"torch.{dtype.scalar_name}Tensor"


def _check_types(input: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool) -> None:
    """RuntimeError for operands of several dtypes, in the words of the library that PyTorch would have called."""
    x = input._layout
    if not transposed and bias is not None and bias._layout.dtype is not x.dtype:
        raise RuntimeError(f"Input type ({x.dtype.c_name}) and bias type ({bias._layout.dtype.c_name}) should be the same")
    library = x.dtype.name == "bfloat16" or (x.dtype.name == "float32" and (x.shape[0] > 1 or x.numel > 20480))
    for name, other in (("weight", weight), ("bias", bias)):
        if other is None or other._layout.dtype is x.dtype:
            continue
        if library or x.dtype.is_complex:
            dense = "" if x.dtype.is_complex else f" or input should be a MKLDNN tensor and {name} is a dense tensor"
            raise RuntimeError(
                f"Input type ({_type_title(x)}) and {name} type ({_type_title(other._layout)}) should be the same{dense}"
            )
        raise RuntimeError(f"expected scalar type {x.dtype.scalar_name} but found {other._layout.dtype.scalar_name}")


def _of_one_dtype(input: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Operands of several dtypes, of an input without elements, in the dtype of the result that PyTorch gives."""
    x, w = input._layout, weight._layout.dtype
    if x.shape[0] and x.ndim > 1 and not x.shape[1]:
        dtype = promote_types(x.dtype, w)
    else:
        dtype = result_dtype([(x.dtype, DIMENSIONED), (w, ZERO_DIM)])
    return input.to(dtype), weight.to(dtype), bias if bias is None else bias.to(dtype)


def _check_integers(dtype: DType, n: int, transposed: bool, dilated: bool) -> None:
    """NotImplementedError for the integers that PyTorch's kernel of such a convolution doesn't know."""
    if dtype.is_floating_point or dtype.is_complex or dtype.name == "int64":
        return
    name = "compute_columns3d" if n == 3 else "slow_conv2d_cpu"
    if transposed:
        name = f"slow_conv_transpose{max(n, 2)}d_out_cpu"
    elif dilated:
        name = "slow_conv_dilated<>"
    elif dtype.name != "bool":
        return
    raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")


def _by(sizes: Any) -> str:
    return " x ".join(map(str, sizes))


def _shape_errors(
    n: int, x: Layout, w: Layout, bias: Tensor | None, padding: Numbers, dilation: Numbers, groups: int, transposed: bool
) -> None:
    channels = w.shape[0] if transposed else w.shape[1] * groups
    mode = "transposed=1, " if transposed else ""
    if w.ndim != x.ndim:
        raise RuntimeError(
            f"Expected {w.ndim}-dimensional input for {w.ndim}-dimensional weight {list(w.shape)}, but got "
            f"{x.ndim}-dimensional input of size {list(x.shape)} instead"
        )
    if w.shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got "
            "weight of size "
            f"{list(w.shape)} instead"
        )
    if w.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but "
            "got weight of "
            f"size [{list(w.shape)}] instead"
        )
    if x.shape[1] != channels:
        raise RuntimeError(
            f"Given {mode or f'groups={groups}, '}weight of size {list(w.shape)}, expected "
            f"input{list(x.shape)} to "
            f"have {channels} channels, but got {x.shape[1]} channels instead"
        )
    outputs = w.shape[1] * groups if transposed else w.shape[0]
    if bias is not None and tuple(bias._layout.shape) != (outputs,):
        raise RuntimeError(
            f"Given {mode}weight of size {list(w.shape)}, expected bias to be 1-dimensional with "
            f"{outputs} elements, "
            f"but got bias of size {list(bias._layout.shape)} instead"
        )
    kernel = w.shape[2:]
    if not transposed:
        padded = tuple(s + 2 * p for s, p in zip(x.shape[2:], padding))
        reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation))
        if any(r > p for r, p in zip(reach, padded)):
            raise RuntimeError(
                f"Calculated padded input size per channel: ({_by(padded)}). Kernel size: "
                f"({_by(reach)}). Kernel size "
                "can't be greater than actual input size"
            )
    if 0 in kernel:
        raise RuntimeError(
            f"kernel size should be greater than zero, but got: {_by(kernel)} (TxHxW)"
            if n == 3
            else "kernel size should be greater than zero, but got kernel_height: "
            f"{kernel[0] if n == 2 else 1} kernel_width: {kernel[-1]}"
        )
    if transposed and not w.shape[1]:
        raise RuntimeError(f"non-empty 2D or 4D weight tensor expected, but got: {list(w.shape)}")
    if 0 in x.shape and x.shape[0] and x.shape[1]:
        raise RuntimeError(f"Only zero batch or zero channel inputs are supported, but got input shape: {list(x.shape)}")


_complete: dict[Any, tuple] = register_cache({})


@described(autocast=lower)
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """A convolution with all its arguments, over a batch. Raises RuntimeError where they don't fit."""
    x = input._layout
    if x.dtype is not weight._layout.dtype and not x.numel and (bias is None or bias._layout.dtype is x.dtype):
        input, weight, bias = _of_one_dtype(input, weight, bias)
    key = (
        input._layout,
        weight._layout,
        None if bias is None else bias._layout,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    )
    try:
        arguments = _complete.get(key)
    except TypeError:  # lists among the arguments
        arguments = key = None
    if arguments is None:
        arguments = checked_arguments(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        if key is not None:
            _complete[key] = arguments
    stride, padding, dilation, extra, size = arguments
    if input._layout.dtype.is_complex:
        return _complex(input, weight, bias, stride, padding, dilation, transposed, extra, groups)
    if transposed:
        return _gradient_of_input(input, weight, bias, size, stride, padding, dilation, groups)
    return _convolve(input, weight, bias, stride, padding, dilation, groups)


def checked_arguments(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> tuple[Numbers, Numbers, Numbers, Numbers, Numbers]:
    """Stride, padding, dilation, output padding and (of a transposed convolution) the result's extents, per dimension."""
    n = weight._layout.ndim - 2
    if n < 1:
        raise RuntimeError("weight should have at least three dimensions")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    stride, padding = expand_argument("stride", stride, n), expand_argument("padding", padding, n)
    dilation = expand_argument("dilation", dilation, n)
    extra = expand_argument("output_padding", output_padding, n)
    if any(p < 0 for p in padding):
        raise RuntimeError("negative padding is not supported")
    if any(p < 0 for p in extra):
        raise RuntimeError("negative output_padding is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(d <= 0 for d in dilation):
        raise RuntimeError("dilation should be greater than zero" + (f", but got {list(dilation)}" if n == 2 else ""))
    _shape_errors(n, input._layout, weight._layout, bias, padding, dilation, groups, transposed)
    _check_integers(input._layout.dtype, n, transposed, any(d != 1 for d in dilation))
    _check_types(input, weight, bias, transposed)
    if not transposed:
        return stride, padding, dilation, extra, ()
    if any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation)):
        axes = ("depth", "height", "width")[-max(n, 2) :]
        listed = [
            f"{name}_{axis}: {value}"
            for name, values, fill in (("output_padding", extra, 0), ("stride", stride, 1), ("dilation", dilation, 1))
            for axis, value in zip(axes, (fill, *values) if n == 1 else values)
        ]
        raise RuntimeError(f"output padding must be smaller than either stride or dilation, but got {' '.join(listed)}")
    given = input._layout.shape[2:]
    size = tuple(
        (i - 1) * s - 2 * p + d * (k - 1) + e + 1
        for i, s, p, d, k, e in zip(given, stride, padding, dilation, weight._layout.shape[2:], extra)
    )
    if any(extent < 1 for extent in size):
        lead = (1,) if n == 1 else ()
        raise RuntimeError(
            f"Given input size per channel: ({_by((*lead, *given))}). Calculated output size per channel: "
            f"({_by((*lead, *size))}). Output size is too small"
        )
    return stride, padding, dilation, extra, size


def _complex(input: Tensor, weight: Tensor, bias: Tensor | None, *arguments: Any) -> Tensor:
    """A convolution of complex tensors as three real ones: (a + bi)(c + di) from ac, bd and (a + b)(c + d)."""
    x, w = (NAMESPACE["view_as_real"](t.resolve_conj()) for t in (input, weight))
    b = None if bias is None else NAMESPACE["view_as_real"](bias.resolve_conj())
    real, imaginary = (None, None) if b is None else (b.select(-1, 0), b.select(-1, 1))
    x_real, x_imaginary, w_real, w_imaginary = (t.select(-1, part) for t in (x, w) for part in (0, 1))
    first = convolution(x_real, w_real, real, *arguments)
    second = convolution(x_imaginary, w_imaginary, None, *arguments)
    both = convolution(x_real + x_imaginary, w_real + w_imaginary, None if b is None else real + imaginary, *arguments)
    return NAMESPACE["complex"](first - second, both - first - second)


def _same_padding(input: Tensor, weight: Tensor, stride: Any, dilation: Any, n: int) -> tuple[Tensor, Numbers]:
    """padding="same": symmetric where possible, otherwise one more at the end of a dimension."""
    if any(s != 1 for s in expand_argument("stride", stride, n)):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(expand_argument("dilation", dilation, n), weight._layout.shape[2:])]
    if any(t % 2 for t in total):
        warn_once(
            "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input be "
            "created"
        )
        pads: list[int] = []
        for t in reversed(total):
            pads += [0, t % 2]
        input = NAMESPACE["constant_pad_nd"](input, pads, 0)
    return input, tuple(t // 2 for t in total)


_calls: dict[Any, tuple] = register_cache({})  # complete arguments of calls that need no check


def _each(value: Any, n: int) -> Any:
    return (value,) * n if value.__class__ is int else value


def _forward(
    n: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    layout = input._layout
    key = (layout, weight._layout, None if bias is None else bias._layout, stride, padding, dilation, groups)
    try:
        known = _calls.get(key)
    except TypeError:  # lists among the arguments
        known = key = None
    if known is not None:
        return _convolve(input, weight, bias, *known, groups)
    if layout.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to conv{n}d, but got input of size: {list(layout.shape)}"
        )
    batched = layout.ndim == n + 2
    stride, padding, dilation = _each(stride, n), _each(padding, n), _each(dilation, n)
    x = input if batched else input.unsqueeze(0)
    if isinstance(padding, str):
        if padding == "same":
            x, padding = _same_padding(x, weight, stride, dilation, n)
        elif padding == "valid":
            padding = 0
        else:
            raise RuntimeError(f"Invalid padding string: '{padding}'")
    made = convolution(x, weight, bias, stride, padding, dilation, False, 0, groups)
    if x is input and key is not None and not layout.dtype.is_complex and layout.dtype is weight._layout.dtype:
        _calls[key] = checked_arguments(x, weight, bias, stride, padding, dilation, False, 0, groups)[:3]
    return made if batched else made.squeeze(0)


def _transposed(
    n: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    layout = input._layout
    if layout.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to conv_transpose{n}d, but got "
            "input of size: "
            f"{list(layout.shape)}"
        )
    batched = layout.ndim == n + 2
    stride, padding, dilation = _each(stride, n), _each(padding, n), _each(dilation, n)
    output_padding = _each(output_padding, n)
    made = convolution(
        input if batched else input.unsqueeze(0), weight, bias, stride, padding, dilation, True, output_padding, groups
    )
    return made if batched else made.squeeze(0)


@composite(method=False, autocast=lower)
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution over (N, C, L) or (C, L) with a weight of (O, C / groups, K)."""
    return _forward(1, input, weight, bias, stride, padding, dilation, groups)


@composite(method=False, autocast=lower)
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution over (N, C, H, W) or (C, H, W) with a weight of (O, C / groups, KH, KW)."""
    return _forward(2, input, weight, bias, stride, padding, dilation, groups)


@composite(method=False, autocast=lower)
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution over (N, C, D, H, W) or (C, D, H, W)."""
    return _forward(3, input, weight, bias, stride, padding, dilation, groups)


@composite(method=False, autocast=lower)
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over (N, C, L) with a weight of (C, O / groups, K)."""
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite(method=False, autocast=lower)
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over (N, C, H, W) with a weight of (C, O / groups, KH, KW)."""
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite(method=False, autocast=lower)
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over (N, C, D, H, W)."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


# ---------------------------------------------------------------- gradients by themselves


def _backwards(
    n: int, x: Layout, w: Layout, g: Layout, stride: Any, padding: Any, dilation: Any, groups: int
) -> tuple[Numbers, ...]:
    """Stride, padding and dilation per dimension of a convolution of these layouts; RuntimeError if they don't go together."""
    if x.dtype.is_complex:
        raise NotImplementedError(f"\"slow_conv{max(n, 2)}d_cpu_grad_input\" not implemented for '{x.dtype.scalar_name}'")
    n = w.ndim - 2
    stride, padding, dilation = (
        expand_argument(name, value, n) for name, value in (("stride", stride), ("padding", padding), ("dilation", dilation))
    )
    _shape_errors(n, x, w, None, padding, dilation, groups, False)
    expected = (x.shape[0], w.shape[0], *output_size(x.shape[2:], w.shape[2:], stride, padding, dilation))
    if tuple(g.shape) != expected:
        raise RuntimeError(
            f"a convolution of an input of shape {list(x.shape)} with a weight of shape {list(w.shape)} has a "
            f"result of shape {list(expected)}, but grad_output has {list(g.shape)}"
        )
    return stride, padding, dilation


def input_gradient(
    n: int, size: Any, weight: Tensor, grad: Tensor, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """What the gradient of a convolution's result makes of its input, of shape `size`."""
    x = Layout.contiguous(geometry.int_tuple(size), grad._layout.dtype, grad._layout.device)
    _check_types(grad, weight, None, False)
    arguments = _backwards(n, x, weight._layout, grad._layout, stride, padding, dilation, groups)
    return _gradient_of_input(grad, weight, None, x.shape[2:], *arguments, groups)


def weight_gradient(
    n: int, input: Tensor, size: Any, grad: Tensor, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """What the gradient of a convolution's result makes of its weight, of shape `size`."""
    w = Layout.contiguous(geometry.int_tuple(size), grad._layout.dtype, grad._layout.device)
    _check_types(grad, input, None, False)
    arguments = _backwards(n, input._layout, w, grad._layout, stride, padding, dilation, groups)
    return _gradient_of_weight(input, grad, w.shape[2:], *arguments, groups)

"""Quantized models while they are captured: in plain tensors of integers, by torch.ops.quantized_decomposed.

What makes quantized tensors (`torch.quantize_per_tensor`, `torch.ops.quantized`) is answered by `Decomposed`, which records
roundings to integers and back around the functions of numbers, as graphs of `convert_pt2e` have them; ONNX calls these nodes
QuantizeLinear and DequantizeLinear. A `Quantized` tensor is a traced tensor of integers and its quantizer. Modules that buffers
tell what to do (fake quantizers, `Quantize`) do what they would do now. Stands on ops.quantized's tables; used by `_capture`.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._subclasses.fake_tensor import UnsupportedFakeTensorException
from flambeau.ops.quantized import functions as tables
from flambeau.ops.quantized.tensor import CODES, RANGES, PerChannel, PerTensor, QuantizedTensor, codes
from flambeau.overrides import TorchFunctionMode

__all__ = ["decomposed"]

F = torch.nn.functional

#: Functions that run on the integers: views, and what joins or copies. Those that compare elements aren't among them, as runtimes
#: have them for few types.
_ON_INTEGERS = frozenset(
    """broadcast_to chunk clone diagonal expand expand_as flip gather hsplit index_select moveaxis movedim narrow permute
    pixel_shuffle pixel_unshuffle channel_shuffle repeat repeat_interleave roll select split split_with_sizes squeeze swapaxes
    swapdims t take_along_dim tensor_split tile transpose unbind unsqueeze vsplit dsplit __getitem__""".split()
) | frozenset(tables.KEPT.split())
#: Functions that run on the numbers, whose results are quantized as their first tensor is.
_ON_NUMBERS = frozenset(
    f"{tables.COMPUTED} {tables.AVERAGED} amax amin max max_pool1d max_pool2d max_pool3d min sort topk".split()
)
#: Functions that say something of a tensor and need no values.
_FACTS = frozenset(
    "size dim numel nelement stride is_floating_point is_contiguous element_size __len__ dense_dim get_device".split()
)


class Quantized(torch.Tensor):
    """A traced quantized tensor: `integers`, a plain tensor, and `quantizer`, whose scale and zero point may be traced too."""

    integers: Any
    quantizer: Any
    is_quantized = True
    dtype = torch.Tensor.dtype
    shape, device, ndim = (property(operator.attrgetter(f"integers.{name}")) for name in ("shape", "device", "ndim"))

    @staticmethod
    def __new__(cls, integers: Any, quantizer: Any, dtype: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, (), dtype=dtype)
        made.integers, made.quantizer, made.kept = integers, quantizer, None
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        return _answer(func, list(args), dict(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        raise _refused(str(func))

    def numbers(self) -> Any:
        """The float32 tensor that it stands for."""
        if self.kept is None:
            self.kept = _numbers_of(self.integers, self.quantizer, self.dtype)
        return self.kept

    def become(self, other: Quantized) -> Quantized:
        """Take on the integers of another, as functions that write in place do."""
        self.integers, self.quantizer, self.kept = other.integers, other.quantizer, other.kept
        return self


def _refused(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"torch.onnx.export: {name} of quantized tensors is not implemented in flambeau; dequantize() them before, or leave that "
        "part of the model in floats"
    )


# ---------------------------------------------------------------- to integers and back


def _one_value(quantizer: PerTensor) -> tuple[str, Any, Any]:
    """The overload, scale and zero point of a tensor that is quantized as a whole."""
    scale, zero_point = quantizer.scale, quantizer.zero_point
    if not isinstance(scale, torch.Tensor) and not isinstance(zero_point, torch.Tensor):
        return "default", float(scale), int(zero_point)
    return "tensor", torch.as_tensor(scale), torch.as_tensor(zero_point)


def _numbers_of(integers: Any, quantizer: Any, dtype: Any) -> Any:
    operators, limits = torch.ops.quantized_decomposed, (*RANGES[dtype], CODES[dtype])
    if isinstance(quantizer, PerChannel):
        scales, zero_points = quantizer.scales, quantizer.zero_points
        return operators.dequantize_per_channel.default(integers, scales, zero_points, quantizer.axis, *limits)
    overload, scale, zero_point = _one_value(quantizer)
    return getattr(operators.dequantize_per_tensor, overload)(integers, scale, zero_point, *limits)


def _quantized(x: Any, quantizer: Any, dtype: Any) -> Quantized:
    """Numbers as integers."""
    operators, limits = torch.ops.quantized_decomposed, (*RANGES[dtype], CODES[dtype])
    if isinstance(quantizer, PerChannel):
        made = operators.quantize_per_channel.default(x, quantizer.scales, quantizer.zero_points, quantizer.axis, *limits)
    else:
        overload, scale, zero_point = _one_value(quantizer)
        made = getattr(operators.quantize_per_tensor, overload)(x, scale, zero_point, *limits)
    return Quantized(made, quantizer, dtype)


def _numbers(x: Any) -> Any:
    """The numbers of a quantized tensor, traced or a constant; anything else as it is."""
    if isinstance(x, Quantized):
        return x.numbers()
    return _numbers_of(codes(x), x._quantizer, x.dtype) if isinstance(x, QuantizedTensor) else x


def _uniform(x: Quantized, name: str) -> Quantized:
    if not isinstance(x.quantizer, PerTensor):
        raise _refused(f"{name}, by channels,")
    return x


def _first(*trees: Any) -> Any:
    return next(x for x in pytree.tree_leaves(trees) if isinstance(x, (Quantized, QuantizedTensor)))


# ---------------------------------------------------------------- functions of torch


def _answer(func: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What a function gives of traced quantized tensors."""
    if getattr(func, "_namespace", "aten") == "quantized":
        return _operator(func, args, kwargs)
    name = getattr(func, "__name__", str(func)).partition(".")[0]
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if name in _QUESTIONS:
        return _QUESTIONS[name](*args, **kwargs)
    if name in _FACTS:
        return func(*pytree.tree_map(lambda x: x.integers if isinstance(x, Quantized) else x, args), **kwargs)
    if plain in tables.FIXED:
        x = args[0]
        scale, zero_points = tables.FIXED[plain]
        made = _quantized(_function(plain, func)(x.numbers()), PerTensor(scale, zero_points[x.dtype]), x.dtype)
        return x.become(made) if plain != name else made
    if name in ("cat", "concat", "concatenate", "stack"):
        return _joined(func, *args, **kwargs)
    if name in tables.COMPARED.split():
        return func(*pytree.tree_map(_numbers, args), **pytree.tree_map(_numbers, kwargs))
    if plain in _ON_INTEGERS or name in _ON_INTEGERS:
        return _requantized(func, name, plain, args, kwargs, on_integers=True)
    if plain in _ON_NUMBERS:
        return _requantized(func, name, plain, args, kwargs, on_integers=False)
    if name == "dropout" and not _given(func, args, kwargs, "training", True):
        return args[0]
    raise _refused(name)


def _function(name: str, func: Any) -> Any:
    """The function that gives a new tensor, of one that may write."""
    return getattr(F, name, None) or getattr(torch, name, None) or getattr(torch.Tensor, name, func)


def _given(func: Any, args: Sequence[Any], kwargs: dict[str, Any], name: str, usual: Any) -> Any:
    """What a call says for an argument of a function."""
    try:
        return inspect.signature(func).bind(*args, **kwargs).arguments.get(name, usual)
    except (TypeError, ValueError):
        return kwargs.get(name, usual)


def _requantized(func: Any, name: str, plain: str, args: list[Any], kwargs: dict[str, Any], on_integers: bool) -> Any:
    """The function on integers or numbers, its results quantized as the first tensor is."""
    x = _uniform(_first(args, kwargs), name)
    into = plain != name or bool(_given(func, args, kwargs, "inplace", False))
    turn = (lambda t: t.integers if isinstance(t, Quantized) else t) if on_integers else _numbers
    given, named = pytree.tree_map(turn, (args, kwargs))
    source = turn(x)
    if into:  # a copy is written, as several may read the numbers
        given = [source.clone() if t is source else t for t in given]
    made = func(*given, **named)
    if made is source:
        return x

    def back(t: Any) -> Any:
        if not isinstance(t, torch.Tensor) or t.dtype != source.dtype:
            return t
        return Quantized(t, x.quantizer, x.dtype) if on_integers else _quantized(t, x.quantizer, x.dtype)

    result = pytree.tree_map(back, made)
    return x.become(result) if into else result


def _joined(func: Any, tensors: Sequence[Any], dim: int = 0) -> Any:
    first = _uniform(_first(tensors), func.__name__)
    if all(isinstance(t, Quantized) and t.quantizer.same(first.quantizer) for t in tensors):
        return Quantized(func([t.integers for t in tensors], dim), first.quantizer, first.dtype)
    return _quantized(func([_numbers(t) for t in tensors], dim), first.quantizer, first.dtype)


def _to(x: Any, *args: Any, **kwargs: Any) -> Any:
    """x.to(device) is x; others are refused."""
    dtypes = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.dtype) and a != x.dtype]
    if dtypes:
        raise _refused(f"to({dtypes[0]})")
    return x


_QUESTIONS: dict[str, Callable[..., Any]] = {
    "dequantize": lambda x: [_numbers(t) for t in x] if isinstance(x, (list, tuple)) else _numbers(x),
    "int_repr": lambda x: x.integers,
    "qscheme": lambda x: x.quantizer.scheme,
    "q_scale": lambda x: _uniform(x, "q_scale").quantizer.scale,
    "q_zero_point": lambda x: _uniform(x, "q_zero_point").quantizer.zero_point,
    "to": _to,
}


# ---------------------------------------------------------------- torch.ops.quantized


def _weight_and_bias(packed: Any) -> tuple[Any, Any]:
    weight, bias = packed.unpack()
    return _numbers(weight), None if bias is None else bias.detach()


def _linear(x: Any, packed: Any) -> Any:
    return F.linear(x, *_weight_and_bias(packed))


def _convolution(x: Any, packed: Any, *_: Any) -> Any:
    dims, (weight, bias) = packed.dims, _weight_and_bias(packed)
    window = (packed.stride(), packed.padding())
    if packed.transpose():
        call = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
        return call(x, weight, bias, *window, packed.output_padding(), packed.groups(), packed.dilation())
    call = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    return call(x, weight, bias, *window, packed.dilation(), packed.groups())


def _elu(x: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    return torch.where(x > 0, x * scale, (torch.exp(x * input_scale) - 1) * (alpha * scale))


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
    return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)


#: By operator what it computes of numbers; arguments in the order of its schema, without the result's scale and zero point.
_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "mul": torch.mul,
    "matmul": torch.matmul,
    "cat": torch.cat,
    "linear": _linear,
    "linear_leaky_relu": lambda x, packed, slope: F.leaky_relu(_linear(x, packed), slope),
    "linear_tanh": lambda x, packed: torch.tanh(_linear(x, packed)),
    "conv2d_add": lambda x, other, packed: _convolution(x, packed) + other,
    "sigmoid": torch.sigmoid,
    "hardswish": F.hardswish,
    "softmax": F.softmax,
    "elu": _elu,
    "celu": lambda x, alpha: _elu(x, alpha, 1, 1 / alpha),
    "leaky_relu": lambda x, slope, inplace: F.leaky_relu(x, slope),
    "prelu": F.prelu,
    "dropout": lambda x, p, training: F.dropout(x, p, training),
    "layer_norm": F.layer_norm,
    "group_norm": F.group_norm,
    "instance_norm": lambda x, weight, bias, eps: F.instance_norm(x, None, None, weight, bias, True, 0.0, eps),
    **{f"conv{kind}{dims}d": _convolution for kind in ("", "_transpose") for dims in (1, 2, 3)},
    **{f"batch_norm{end}": _batch_norm for end in ("", "1d", "2d", "3d")},
}
#: Operators that do what a function of torch does to a quantized tensor.
_AS_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "clamp": torch.clamp,
    "threshold": F.threshold,
    "relu6": F.relu6,
    "max_pool1d": F.max_pool1d,
    "max_pool2d": F.max_pool2d,
}
#: What schemas call the scale and the zero point of a result; the first name that there is.
_RESULT = (("output_scale", "Y_scale_i", "scale"), ("output_zero_point", "Y_zero_point_i", "zero_point"))


def _operator(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What an operator of torch.ops.quantized gives."""
    name = func.__name__.partition(".")[0]
    plain = name if name in _OPERATORS else name.removesuffix("_relu")
    if name in _AS_FUNCTIONS:
        return _AS_FUNCTIONS[name](*args, **kwargs)
    if name in _DYNAMIC:
        return _DYNAMIC[name](*args, **kwargs)
    if plain not in _OPERATORS:
        raise _refused(f"torch.ops.quantized.{name}")
    given = _bound(func, args, kwargs)
    scale, zero_point = (given.pop(next((n for n in names if n in given), None), None) for names in _RESULT)
    first = _first(given)
    if scale is None:
        if name != "cat":
            raise _refused(f"torch.ops.quantized.{name} with a number")
        scale, zero_point = _uniform(first, name).quantizer.scale, first.quantizer.zero_point
    made = _OPERATORS[plain](*pytree.tree_map(_numbers, list(given.values())))
    return _quantized(made.relu() if plain != name else made, PerTensor(scale, zero_point), first.dtype)


def _bound(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names in the operator's schema."""
    if hasattr(func, "_schema"):
        overloads = [func]
    else:
        overloads = [getattr(func, name) for name in func.overloads()]
    for overload in overloads:
        arguments = overload._schema.arguments
        names = [a.name for a in arguments]
        given = {**dict(zip(names, args)), **kwargs}
        missing = [a.name for a in arguments if a.name not in given and not a.has_default_value()]
        if len(args) <= len(names) and not missing and set(given) <= set(names) and not overload._schema.is_mutable:
            return {a.name: given.get(a.name, a.default_value) for a in arguments}
    raise TypeError(f"{func}: these arguments fit no overload")


def _dynamically(x: Any, dtype: Any, least: int, greatest: int) -> Any:
    """Numbers rounded to integers from `least` to `greatest` by their own range."""
    kind = CODES[dtype]
    qparams = torch.ops.quantized_decomposed.choose_qparams.tensor(x, least, greatest, 6.1e-5, kind)
    made = torch.ops.quantized_decomposed.quantize_per_tensor.tensor(x, *qparams, least, greatest, kind)
    return Quantized(made, PerTensor(*qparams), dtype)


def _dynamic(relu: bool) -> Callable[..., Any]:
    def linear(X: Any, W_prepack: Any, reduce_range: bool = False) -> Any:
        weight, bias = _weight_and_bias(W_prepack)
        if getattr(W_prepack.weight, "is_quantized", False):  # and not in half precision
            X = _dynamically(X, torch.quint8, 0, 127 if reduce_range else 255).numbers()
        made = F.linear(X, weight, bias)
        return made.relu() if relu else made

    return linear


#: Operators whose results are numbers.
_DYNAMIC: dict[str, Callable[..., Any]] = {
    "linear_dynamic": _dynamic(False),
    "linear_relu_dynamic": _dynamic(True),
    "linear_dynamic_fp16": _dynamic(False),
    "linear_relu_dynamic_fp16": _dynamic(True),
    "embedding_byte": lambda weight, indices, pruned_weights=False: F.embedding(indices, _numbers(weight.unpack())),
    "embedding_4bit": lambda weight, indices, pruned_weights=False: F.embedding(indices, _numbers(weight.unpack())),
}


# ---------------------------------------------------------------- what makes quantized tensors


def _per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    return _quantized(input, PerTensor(scale, zero_point), dtype)


def _per_channel(input: Any, scales: Any, zero_points: Any, axis: int, dtype: Any) -> Any:
    return _quantized(input, PerChannel(scales, zero_points, axis % input.dim()), dtype)


def _by_range(input: Any, dtype: Any, reduce_range: bool) -> Any:
    least, greatest = RANGES[dtype]
    return _dynamically(input, dtype, *((least // 2, greatest // 2) if reduce_range else (least, greatest)))


_MAKERS: dict[str, Callable[..., Any]] = {
    "quantize_per_tensor": _per_tensor,
    "quantize_per_channel": _per_channel,
    "quantize_per_tensor_dynamic": _by_range,
}


class Decomposed(TorchFunctionMode):
    """While it is on, functions that make quantized tensors make traced ones."""

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(isinstance(x, Quantized) for x in pytree.tree_leaves((args, kwargs))):
            return _answer(func, list(args), dict(kwargs))
        if getattr(func, "_namespace", "") == "quantized" and not func.__name__.partition(".")[0].endswith(_ABOUT):
            return _operator(func, args, kwargs)
        maker = _MAKERS.get(getattr(func, "__name__", ""))
        return func(*args, **kwargs) if maker is None else maker(*args, **kwargs)


#: Operators that pack weights, or say something of packed ones.
_ABOUT = ("prepack", "unpack", "prepack_fp16", "unpack_fp16", "stride", "padding", "dilation", "groups", "transpose")


# ---------------------------------------------------------------- modules with switches


def _fake_quantizer(module: Any) -> Callable[..., Any]:
    """What a fake quantizer does with the switches and numbers that it has now. ValueError for one that observes."""
    if bool(module.observer_enabled[0]):
        raise ValueError(
            "torch.onnx.export: a fake quantizer of the model observes ranges, which a model in a file can't: call "
            "model.apply(torch.ao.quantization.disable_observer) before"
        )
    if not bool(module.fake_quant_enabled[0]):
        return lambda X: X
    limits = (module.activation_post_process.quant_min, module.activation_post_process.quant_max)
    if module.is_per_channel:
        return lambda X: torch.fake_quantize_per_channel_affine(X, module.scale, module.zero_point, module.ch_axis, *limits)
    return lambda X: torch.fake_quantize_per_tensor_affine(X, module.scale, module.zero_point, *limits)


def _quantize(module: Any) -> Callable[..., Any]:
    scale, zero_point = float(module.scale), int(module.zero_point)
    return lambda X: torch.quantize_per_tensor(X, scale, zero_point, module.dtype)


#: What makes the `forward` that stands for that of a class, by the class and the module that has it.
_SWITCHED = {
    ("flambeau.ao.quantization.fake_quantize", "FakeQuantize"): _fake_quantizer,
    ("flambeau.ao.quantization.fake_quantize", "FusedMovingAvgObsFakeQuantize"): _fake_quantizer,
    ("flambeau.ao.nn.quantized.modules", "Quantize"): _quantize,
}


@contextlib.contextmanager
def decomposed(model: Any) -> Iterator[None]:
    """While it is on, running the model makes no quantized tensors, and fake quantizers are as they are switched now."""
    homes = {key: sys.modules[key[0]] for key in _SWITCHED if key[0] in sys.modules}  # a model's are loaded
    rules = {getattr(home, key[1]).forward: _SWITCHED[key] for key, home in homes.items()}
    modules = model.modules() if isinstance(model, torch.nn.Module) else ()
    changed = [m for m in modules if type(m).forward in rules]
    for module in changed:
        module.forward = rules[type(module).forward](module)
    try:
        with Decomposed():
            yield
    except UnsupportedFakeTensorException as error:  # of a result: tracers ask what tensor it is
        if Quantized.__name__ not in str(error):
            raise
        raise NotImplementedError(
            "torch.onnx.export: a model that returns a quantized tensor is not implemented in flambeau; dequantize() it"
        ) from error
    finally:
        for module in changed:
            del module.forward

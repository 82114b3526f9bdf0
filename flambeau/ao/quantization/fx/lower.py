"""Dequantize, compute, quantize becomes one call of a quantized kernel. Stands on the graph that convert makes.

Used by convert for models that are to run with integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn import quantized as nnq
from flambeau.ao.nn.intrinsic import quantized as nniq
from flambeau.ao.nn.intrinsic.quantized import dynamic as nniqd
from flambeau.ao.nn.quantized import dynamic as nnqd
from flambeau.ao.nn.quantized import reference as nnqr
from flambeau.ao.quantization.fx.constants import constant_value, constants
from flambeau.ao.quantization.qconfig_mapping import _FIXED_QPARAMS_OP_TO_OBSERVER
from flambeau.ao.quantization.utils import _parent_name, type_before_parametrizations
from flambeau.fx import GraphModule, Node

__all__ = ["lower_to_native_backend"]

F, ops = nn.functional, torch.ops.quantized
_RELUS = (F.relu, torch.relu)

# Reference modules and the quantized modules that they become.
_STATIC: dict[Any, Any] = {
    getattr(nnqr, name): getattr(nnq, name)
    for name in "Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d".split()
}
_STATIC_FUSED: dict[Any, Any] = {
    nni.LinearReLU: (nnqr.Linear, nniq.LinearReLU),
    nni.LinearLeakyReLU: (nnqr.Linear, nniq.LinearLeakyReLU),
    nni.LinearTanh: (nnqr.Linear, nniq.LinearTanh),
    nni.ConvReLU1d: (nnqr.Conv1d, nniq.ConvReLU1d),
    nni.ConvReLU2d: (nnqr.Conv2d, nniq.ConvReLU2d),
    nni.ConvReLU3d: (nnqr.Conv3d, nniq.ConvReLU3d),
}
_TWO_INPUTS: dict[Any, Any] = {nni.ConvAdd2d: (nnqr.Conv2d, nniq.ConvAdd2d), nni.ConvAddReLU2d: (nnqr.Conv2d, nniq.ConvAddReLU2d)}
_DYNAMIC: dict[Any, Any] = {
    getattr(nnqr, name): getattr(nnqd, name) for name in "Linear GRUCell LSTMCell RNNCell LSTM GRU".split()
}
_DYNAMIC_FUSED: dict[Any, Any] = {nni.LinearReLU: (nnqr.Linear, nniqd.LinearReLU)}
_WEIGHT_ONLY: dict[Any, Any] = {nnqr.Embedding: nnq.Embedding, nnqr.EmbeddingBag: nnq.EmbeddingBag}
_JOINED: dict[Any, Any] = _STATIC_FUSED | _TWO_INPUTS
_MADE = {*_STATIC.values(), *(made for _, made in _JOINED.values())}
_MADE_DYNAMIC = {*_DYNAMIC.values(), *(made for _, made in _DYNAMIC_FUSED.values())}
# Modules without packed weights.
_SPECIAL_MODULES: dict[Any, Any] = {
    nn.BatchNorm2d: nnq.BatchNorm2d,
    nn.BatchNorm3d: nnq.BatchNorm3d,
    nni.BNReLU2d: nniq.BNReLU2d,
    nni.BNReLU3d: nniq.BNReLU3d,
    **{
        getattr(nn, name): getattr(nnq, name)
        for name in "ELU LeakyReLU Hardswish InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm Dropout Softmax PReLU".split()
    },
}
# Functions, the kernel of each, that with a ReLU, the packing of its weight, and the dimensions of its strides.
_FUNCTIONS: dict[Any, tuple[Any, Any, Any, int | None]] = {
    F.linear: (ops.linear, ops.linear_relu, ops.linear_prepack, None),
    F.conv1d: (ops.conv1d, ops.conv1d_relu, ops.conv1d_prepack, 1),
    F.conv2d: (ops.conv2d, ops.conv2d_relu, ops.conv2d_prepack, 2),
    F.conv3d: (ops.conv3d, ops.conv3d_relu, ops.conv3d_prepack, 3),
    F.conv_transpose1d: (ops.conv_transpose1d, None, ops.conv_transpose1d_prepack, 1),
    F.conv_transpose2d: (ops.conv_transpose2d, None, ops.conv_transpose2d_prepack, 2),
    F.conv_transpose3d: (ops.conv_transpose3d, None, ops.conv_transpose3d_prepack, 3),
}
_BINARY: dict[Any, Any] = {
    operator.add: ops.add,
    torch.add: ops.add,
    operator.mul: ops.mul,
    torch.mul: ops.mul,
    torch.matmul: ops.matmul,
    operator.matmul: ops.matmul,
}
_BINARY_RELU: dict[Any, Any] = {
    operator.add: ops.add_relu,
    torch.add: ops.add_relu,
    operator.mul: ops.mul_relu,
    torch.mul: ops.mul_relu,
}
_SPECIAL_FUNCTIONS: dict[Any, Any] = {
    F.elu: ops.elu,
    F.hardswish: ops.hardswish,
    F.leaky_relu: ops.leaky_relu,
    F.dropout: ops.dropout,
    F.layer_norm: ops.layer_norm,
    F.group_norm: ops.group_norm,
    F.instance_norm: ops.instance_norm,
}
_WITHOUT_INPLACE = (F.hardswish, F.elu, F.dropout)


def _copies() -> set[Any]:
    from flambeau.ao.quantization.backend_config.operators import SHARING_OPS

    return {*SHARING_OPS, *_FIXED_QPARAMS_OP_TO_OBSERVER, torch.cat} - {nn.Softmax}


def is_dequantize(node: Any) -> bool:
    """Whether a node gives the numbers of a quantized tensor."""
    return isinstance(node, Node) and node.op == "call_method" and node.target == "dequantize"


def is_quantize(node: Any) -> bool:
    """Whether a node quantizes a tensor as a whole."""
    return isinstance(node, Node) and node.op == "call_function" and node.target is torch.quantize_per_tensor


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _packed_weights(model: Any) -> dict[str, Any]:
    return {
        name: value for name, value in vars(model).items() if "_packed_weight_" in name and isinstance(value, torch.ScriptObject)
    }


def _save_packed(model: Any, destination: dict[str, Any], prefix: str, local_metadata: Any) -> None:
    destination.update({prefix + name: value for name, value in _packed_weights(model).items()})


def _load_packed(model: Any, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
    for name in _packed_weights(model):
        if prefix + name in state_dict:
            setattr(model, name, state_dict.pop(prefix + name))


class _Lowering:
    """One pass over a graph."""

    def __init__(self, model: GraphModule, scopes: dict[str, tuple[str, Any]], keep_original_weights: bool) -> None:
        self.model, self.graph, self.scopes = model, model.graph, scopes
        self.originals: dict[str, list[Any]] | None = {} if keep_original_weights else None
        self.modules: dict[str, Any] = dict(model.named_modules(remove_duplicate=False))

    def attribute(self, node: Any) -> Any:
        """The value of a node of an attribute."""
        value: Any = self.model
        for part in str(node.target).split("."):
            value = getattr(value, part)
        return value

    def put(self, name: str, module: Any) -> None:
        """Exchange a module."""
        parent, own = _parent_name(name)
        setattr(self.modules[parent], own, module)
        self.modules[name] = module

    def quantizer(self, node: Node) -> Node | None:
        """The quantize that alone uses a node."""
        user = _only_user(node)
        return user if is_quantize(user) and user.args[0] is node else None  # type: ignore[union-attr]

    def absorb(self, node: Node, quantize: Node) -> None:
        """Let a node's quantized result stand for that of the quantize after it."""
        quantize.replace_all_uses_with(node)
        self.graph.erase_node(quantize)

    def each(self, kind: str, visit: Callable[[Node], None]) -> None:
        """Visit the nodes of one kind that are still there."""
        for node in list(self.graph.nodes):
            if node.op == kind and not node._erased:
                visit(node)

    # ---- modules
    def static_module(self, node: Node) -> None:
        """Reference modules between dequantize and quantize."""
        module = self.modules[str(node.target)]
        kind = type_before_parametrizations(module)
        made_kind: Any
        count = 1
        if kind in _MADE:
            reference, made_kind = None, kind
        elif kind in _JOINED:
            inner, made_kind = _JOINED[kind]
            if type_before_parametrizations(module[0]) is not inner:
                return
            reference, count = module[0], 2 if kind in _TWO_INPUTS else 1
        elif kind in _STATIC:
            reference, made_kind = module, _STATIC[kind]
        else:
            return
        quantize = self.quantizer(node)
        if quantize is None or not all(is_dequantize(each) for each in node.args[:count]):
            return
        if any(each.args[0].target is torch.quantize_per_tensor_dynamic for each in node.args[:count]):
            return
        scale, zero_point = (self.attribute(each) for each in quantize.args[1:3])
        if reference is None:
            # A module that is called twice has the range of its last call.
            made = module
            made.scale, made.zero_point = float(scale), int(zero_point)
        elif kind is nni.LinearLeakyReLU:
            made = made_kind.from_reference(module, scale, zero_point)
        else:
            made = made_kind.from_reference(reference, scale, zero_point)
        self.put(str(node.target), made)
        node.args = (*(each.args[0] for each in node.args[:count]), *node.args[count:])
        self.absorb(node, quantize)

    def dynamic_module(self, node: Node) -> None:
        """Reference modules after a dynamic quantize."""
        given: Any = node.args[0] if node.args else None
        if not is_dequantize(given):
            return
        before = given.args[0]
        half = before.op == "call_method" and before.target == "to"
        if before.target is not torch.quantize_per_tensor_dynamic and not half:
            return
        module = self.modules[str(node.target)]
        kind = type_before_parametrizations(module)
        if kind in _DYNAMIC_FUSED:
            inner, made_kind = _DYNAMIC_FUSED[kind]
            if type_before_parametrizations(module[0]) is not inner:
                return
            reference = module[0]
        elif kind in _DYNAMIC:
            reference, made_kind = module, _DYNAMIC[kind]
        elif kind in _MADE_DYNAMIC:
            reference = None
        else:
            return
        if reference is not None:
            self.put(str(node.target), made_kind.from_reference(reference))
        node.args = (before.args[0], *node.args[1:])

    def weight_only_module(self, node: Node) -> None:
        """Embeddings."""
        module = self.modules[str(node.target)]
        kind = type_before_parametrizations(module)
        if kind in _WEIGHT_ONLY:
            self.put(str(node.target), _WEIGHT_ONLY[kind].from_reference(module))

    def special_module(self, node: Node) -> None:
        """Modules without packed weights."""
        module = self.modules[str(node.target)]
        made_kind = _SPECIAL_MODULES.get(type_before_parametrizations(module))
        quantize = self.quantizer(node)
        if made_kind is None or quantize is None or not is_dequantize(node.args[0]):
            return
        scale, zero_point = (self.attribute(each) for each in quantize.args[1:3])
        self.put(str(node.target), made_kind.from_reference(module, float(scale), int(zero_point)))
        node.args = (node.args[0].args[0], *node.args[1:])
        self.absorb(node, quantize)

    # ---- functions with weights
    def function(self, node: Node) -> None:
        """linear and convolutions, whose weights are packed here if they are constants."""
        if node.target not in _FUNCTIONS:
            return
        kernel, with_relu, prepack, dims = _FUNCTIONS[node.target]
        args = list(node.args)
        names = ["input", "weight", "bias"]
        for name in names[len(args) :]:
            args.append(node.kwargs.get(name))
        given, weight, bias = args[:3]
        if not is_dequantize(given) or not is_dequantize(weight):
            return
        relu = _only_user(node)
        relu = relu if relu is not None and self._is_relu(relu) else None
        last = relu or node
        before = given.args[0]
        dynamic = before.target is torch.quantize_per_tensor_dynamic
        half = before.op == "call_method" and before.target == "to"
        quantize = None
        if dynamic or half:
            if node.target is not F.linear or (half and weight.args[0].target != "to"):
                return
        else:
            quantize = self.quantizer(last)
            if quantize is None or not (is_quantize(weight.args[0]) or weight.args[0].target is torch.quantize_per_channel):
                return
            if relu is not None and with_relu is None:
                return
        if relu is not None:
            kernel = with_relu
        source = weight.args[0]
        if dynamic:
            kernel = ops.linear_relu_dynamic if relu is not None else ops.linear_dynamic
        elif half:
            kernel, prepack = (
                ops.linear_relu_dynamic_fp16 if relu is not None else ops.linear_dynamic_fp16,
                ops.linear_prepack_fp16,
            )
            source = source.args[0]
        packed = self.packed(node, prepack, source, bias, self._window(node, dims, args))
        if quantize is not None:
            for each in quantize.args[1:3]:
                node.prepend(each)
        tail: tuple[Any, ...] = quantize.args[1:3] if quantize is not None else ()
        if dynamic:
            tail = (before.args[2],)
        node.target, node.args, node.kwargs = kernel, (before.args[0] if dynamic or half else before, packed, *tail), {}
        if relu is not None:
            relu.replace_all_uses_with(node)
            self.graph.erase_node(relu)
        if quantize is not None:
            self.absorb(node, quantize)

    def _is_relu(self, node: Node) -> bool:
        if node.op == "call_module":
            return type_before_parametrizations(self.modules[str(node.target)]) is nn.ReLU
        return node.op == "call_function" and node.target in _RELUS

    def _window(self, node: Node, dims: int | None, args: list[Any]) -> dict[str, Any]:
        """The strides and such of a convolution."""
        if dims is None:
            return {}
        transposed = "transpose" in str(getattr(node.target, "__name__", ""))
        names = (
            ("stride", "padding", "output_padding", "groups", "dilation")
            if transposed
            else ("stride", "padding", "dilation", "groups")
        )
        defaults = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1, "groups": 1}
        given = dict(zip(names, args[3:])) | {k: v for k, v in node.kwargs.items() if k in defaults}
        made: dict[str, Any] = {}
        for name in names:
            value = given.get(name, defaults[name])
            if value is None:
                value = defaults[name]
            made[name] = value if name == "groups" or not isinstance(value, int) else [value] * dims
        order = ("stride", "padding", "output_padding", "dilation", "groups") if transposed else names
        return {name: made[name] for name in order}

    def packed(self, node: Node, prepack: Any, weight: Node, bias: Any, window: dict[str, Any]) -> Node:
        """A node of the packed weight, kept by the model where the weight is a constant."""
        value = constant_value(weight, self.model, self.modules)
        bias_value = constant_value(bias, self.model, self.modules) if isinstance(bias, Node) else bias
        if value is None or (isinstance(bias, Node) and bias_value is None):
            with self.graph.inserting_before(node):
                return self.graph.create_node("call_function", prepack, (weight, bias, *window.values()))
        path = self.scopes.get(node.name, ("", None))[0]
        prefix, number = f"{path.replace('.', '_')}_packed_weight_", 0
        while hasattr(self.model, f"{prefix}{number}"):
            number += 1
        name = f"{prefix}{number}"
        if self.originals is not None:
            self.originals[name.lower()] = constants(weight, bias, self.model)
        setattr(self.model, name, prepack(value.detach(), None if bias_value is None else bias_value.detach(), *window.values()))
        with self.graph.inserting_before(node):
            return self.graph.create_node("get_attr", name)

    # ---- other functions
    def binary(self, node: Node) -> None:
        """Sums and products of quantized tensors, and of one and a number."""
        if node.target not in _BINARY or not self._quantized_operands(node):
            return
        relu = _only_user(node)
        relu = relu if relu is not None and node.target in _BINARY_RELU and self._is_relu(relu) else None
        last = relu or node
        quantize = self.quantizer(last)
        if quantize is None or len(node.args) != 2:
            return
        operands = [each.args[0] if is_dequantize(each) else each for each in node.args]
        tensors = sum(isinstance(each, Node) for each in operands)
        arguments = (*operands, *quantize.args[1:3]) if tensors == 2 else tuple(operands)
        if tensors == 1 and not isinstance(operands[0], Node):
            arguments = (operands[1], operands[0])
        target = (_BINARY_RELU if relu is not None else _BINARY)[node.target]
        with self.graph.inserting_after(quantize):
            made = self.graph.create_node("call_function", target, arguments, {})
        quantize.replace_all_uses_with(made)
        for each in (quantize, relu, node):
            if each is not None:
                self.graph.erase_node(each)

    def _quantized_operands(self, node: Node) -> bool:
        nodes = [each for each in node.args if isinstance(each, Node)]
        return bool(nodes) and all(is_dequantize(each) and not _is_dynamic(each) for each in nodes)

    def special_function(self, node: Node) -> None:
        """Functions whose kernels take a scale and zero point of the result."""
        target = _SPECIAL_FUNCTIONS.get(node.target)
        quantize = self.quantizer(node)
        if target is None or quantize is None or not node.args or not is_dequantize(node.args[0]):
            return
        names = {"output_scale": quantize.args[1], "output_zero_point": quantize.args[2]}
        kwargs = {k: v for k, v in node.kwargs.items() if not (k == "inplace" and node.target in _WITHOUT_INPLACE)}
        args = (node.args[0].args[0], *node.args[1:])
        if node.target is F.instance_norm:
            args, kwargs = _instance_norm(args, kwargs)
        with self.graph.inserting_after(quantize):
            made = self.graph.create_node("call_function", target, args, {**kwargs, **names})
        quantize.replace_all_uses_with(made)
        self.graph.erase_node(quantize)
        self.graph.erase_node(node)

    def copy(self, node: Node) -> None:
        """Calls that take quantized tensors themselves, with the range of their input or a known one."""
        target = type_before_parametrizations(self.modules[str(node.target)]) if node.op == "call_module" else node.target
        if target not in self.copies:
            return
        quantize = self.quantizer(node)
        if quantize is None:
            return
        first = node.args[0] if node.args else next(iter(node.kwargs.values()))
        if isinstance(first, list | tuple):
            if not all(is_dequantize(each) for each in first if isinstance(each, Node)):
                return
            node.args = (type(first)([each.args[0] for each in first]), *node.args[1:])
        else:
            if not is_dequantize(first) or _is_dynamic(first):
                return
            node.replace_input_with(first, first.args[0])
        self.absorb(node, quantize)

    def metadata(self, node: Node) -> None:
        """Questions about sizes are asked of the quantized tensor."""
        asks = (node.op == "call_method" and node.target in ("size", "dim")) or (
            node.target is getattr and len(node.args) > 1 and node.args[1] == "shape"
        )
        if asks and is_dequantize(node.args[0]):
            node.args = (node.args[0].args[0], *node.args[1:])

    def run(self) -> GraphModule:
        """Lower everything that has a kernel."""
        self.copies = _copies()
        for visit in (self.static_module, self.dynamic_module, self.weight_only_module):
            self.each("call_module", visit)
        self.each("call_function", self.function)
        self.each("call_function", self.binary)
        for kind in ("call_function", "call_method"):
            self.each(kind, self.metadata)
        self.each("call_module", self.special_module)
        self.each("call_function", self.special_function)
        for kind in ("call_module", "call_function", "call_method"):
            self.each(kind, self.copy)
        self._merge_dequantizes()
        self.graph.eliminate_dead_code()
        made = GraphModule(self.model, self.graph)
        made._register_state_dict_hook(_save_packed)
        made.register_load_state_dict_pre_hook(_load_packed)
        if self.originals is not None:
            made.original_weights_lookup = self.originals
        return made

    def _merge_dequantizes(self) -> None:
        """One dequantize of each tensor is enough."""
        for node in list(self.graph.nodes):
            first: Node | None = None
            for user in list(node.users):
                if is_dequantize(user):
                    if first is None:
                        first = user
                    else:
                        user.replace_all_uses_with(first)
                        self.graph.erase_node(user)


def _is_dynamic(node: Node) -> bool:
    """Whether a dequantize comes after a dynamic quantize, or one to half precision."""
    before = node.args[0]
    return isinstance(before, Node) and (before.target is torch.quantize_per_tensor_dynamic or before.target == "to")


def _instance_norm(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """instance_norm's arguments for its kernel, which has no running statistics."""
    names = ("input", "running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps")
    given = dict(zip(names, args)) | kwargs
    return (given["input"],), {"weight": given.get("weight"), "bias": given.get("bias"), "eps": given.get("eps", 1e-5)}


def lower_to_native_backend(
    model: GraphModule, scopes: dict[str, tuple[str, Any]], keep_original_weights: bool = False
) -> GraphModule:
    """A reference graph module with quantized kernels in the place of what has one.

    keep_original_weights: the attribute `original_weights_lookup` has what each packed weight was made of, by its name.
    """
    return _Lowering(model, scopes, keep_original_weights).run()

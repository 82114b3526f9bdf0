"""Names of the torch namespace that are no operators and rarely used; `flambeau.__getattr__` looks here last.

Symbolic-size helpers, questions about the build, deprecated autocast switches, storages by type, and the names of PyTorch's
TorchScript compiler, dispatcher and vendor libraries, which only say what to do instead. Stands on core.
"""


# ruff: noqa: F401 - most of what is imported here is offered on

from __future__ import annotations

import enum
import functools
import importlib as _importlib
import inspect
import math
from typing import Any

from flambeau.base.device import device as _Device
from flambeau.base.errors import AcceleratorError, OutOfMemoryError
from flambeau.base.layout import contiguous_format as _C_ORDER
from flambeau.base.layout import strided as _strided
from flambeau.base.streams import Event, Stream
from flambeau.base.warn import deprecated as _older
from flambeau.core.autograd.node import anomaly as _anomaly
from flambeau.core.autograd.node import rename as _rename
from flambeau.core.modes import interception as _interception
from flambeau.core.modes.modes import (
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from flambeau.core.modes.overrides import DisableTorchFunction, DisableTorchFunctionSubclass
from flambeau.core.modes.settings import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    get_float32_matmul_precision,
    get_weight_cache,
    get_winograd,
    is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    set_flush_denormal,
    set_warn_always,
    set_weight_cache,
    set_winograd,
    use_deterministic_algorithms,
)
from flambeau.core.operator import unsupported as _unsupported
from flambeau.core.operator.checks import (
    _check,
    _check_index,
    _check_is_size,
    _check_not_implemented,
    _check_tensor_all,
    _check_tensor_all_with,
    _check_type,
    _check_value,
    _check_with,
)
from flambeau.core.operator.facets import described as _described
from flambeau.core.operator.facets import record_of as _record_of
from flambeau.core.operator.out_argument import deliver as _deliver
from flambeau.core.operator.out_rules import BEFORE_DTYPE as _BEFORE_DTYPE
from flambeau.core.operator.out_rules import OUT_ONLY as _OUT_ONLY
from flambeau.core.operator.out_rules import Out as _Out
from flambeau.core.operator.out_rules import exact as _exact
from flambeau.core.operator.publishing import NAMESPACE as _NAMESPACE
from flambeau.core.symbolic_numbers import (
    SymBool,
    SymFloat,
    SymInt,
    sym_constrain_range,
    sym_constrain_range_for_size,
    sym_float,
    sym_fresh_size,
    sym_int,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_sqrt,
    sym_sum,
)
from flambeau.core.tensor.legacy_types import CPU as _TYPES
from flambeau.core.tensor.legacy_types import set_default_tensor_type, tensortype, typename
from flambeau.core.tensor.storage import Storage as UntypedStorage
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known as _known
from flambeau.ops.elementwise.foreach import FOREACH as _FOREACH
from flambeau.ops.interop.typed_storage import KINDS as _TYPED_STORAGES
from flambeau.ops.interop.typed_storage import TypedStorage, from_file
from flambeau.ops.tensor_methods.predicates import REMOVED as _REMOVED

StorageBase = UntypedStorage  # a base of its own in PyTorch, by which programs tell storages
globals().update(_TYPES)
globals().update(_FOREACH)

# ---------------------------------------------------------------- the build

has_lapack = has_openmp = has_spectral = True
has_mkl = has_cuda = has_cudnn = has_mps = False


def compiled_with_cxx11_abi() -> bool:
    """True: the question concerns C++ extensions, of which there are none."""
    return True


def is_vulkan_available() -> bool:
    """False."""
    return False


def init_num_threads() -> None:
    """Threads start when they are needed."""


def get_device_module(device: Any = None) -> Any:
    """The room of a device's type, such as flambeau.cpu. Raises RuntimeError for types without one."""
    kind = "cpu" if device is None else _Device(device).type
    if kind not in ("cpu", "cuda", "mps", "xpu"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return _importlib.import_module(f"flambeau.{kind}")


def is_storage(obj: Any) -> bool:
    """Whether it is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


def is_anomaly_enabled() -> bool:
    """Whether autograd's anomaly mode is on."""
    return _anomaly.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN."""
    return _anomaly.check_nan


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode."""
    _anomaly.set(enabled, check_nan)


# ---------------------------------------------------------------- other names of what exists

torch = _importlib.import_module("flambeau")
legacy_contiguous_format = _C_ORDER


def _shape_as_tensor(input: Tensor) -> Tensor:
    """The sizes as an int64 tensor."""
    return torch.tensor(list(input.shape), dtype=torch.int64)


def _assert_tensor_metadata(
    a: Tensor, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None, layout: Any = None
) -> None:
    """RuntimeError unless the tensor has these sizes, strides, dtype, device and layout, as far as they are given."""
    from flambeau.dispatcher.aten.conversions import assert_tensor_metadata

    assert_tensor_metadata(a, size, stride, dtype, device=device, layout=layout)


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """The gradient of softmax's input in `input_dtype`, of its result's gradient and its result."""
    weighted = grad_output * output
    return (weighted - output * weighted.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """The gradient of log_softmax's input in `input_dtype`, of its result's gradient and its result."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def _kind_of_data(x: Tensor) -> tuple[Any, ...]:
    """By what two tensors may have each other's data."""
    together = x.is_nested and x.layout is not _strided  # a jagged tensor holds plain ones
    return x.device.type, _strided if together else x.layout, x.is_nested and not together, x.is_quantized


def _has_compatible_shallow_copy_type(input: Tensor, other: Tensor) -> bool:
    """Whether `input.data = other` may be: both are plain, sparse, nested or quantized, on devices of one type."""
    return _kind_of_data(input) == _kind_of_data(other)


# ---------------------------------------------------------------- assertions that graphs keep


def _assert(condition: Any, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds. Graphs keep it, as they don't keep `assert`."""
    if not condition:
        raise AssertionError(message)


def _assert_async(input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise RuntimeError with the message if the one element of the tensor is zero, as far as that is known."""
    if input._layout.numel != 1:
        few = "no values" if input._layout.numel == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {few} is ambiguous")
    if _known(input) and not input.item():
        raise RuntimeError(assert_msg)


# ---------------------------------------------------------------- methods that are functions too


def _method(name: str) -> Any:
    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(input, name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"input.{name}(...)."
    return call


_COPY = _Out(dtype=_exact, graph=_OUT_ONLY, fitted=_BEFORE_DTYPE)


def _copy_of(name: str, of: str, rule: _Out = _COPY) -> Any:
    def of_view(input: Any, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        made = _method(of)(input, *args, **kwargs)
        parts = made if isinstance(made, tuple) else (made,)
        copied = tuple(part.clone(memory_format=_C_ORDER) if part.layout is _strided else part.clone() for part in parts)
        if copied[0]._node is not None and parts[0]._node is not getattr(input, "_node", None):
            step = "NarrowCopyBackward0" if of == "narrow" else type(parts[0]._node).__name__ + "_copy"
            for part in copied:
                _rename(part._node, step)
        copies = copied if isinstance(made, tuple) else copied[0]
        if out is None:
            return copies
        several = isinstance(copies, tuple)
        if several and isinstance(out, (tuple, list)) and len(out) != len(copies):
            full = {"split_copy": "split_copy_Tensor", "unbind_copy": "unbind_copy_int"}.get(name, name)
            raise RuntimeError(f"{full}_out expected an out= argument of size {len(copies)}, got size {len(out)}")
        _deliver(out, copies, _record_of(name), (input,))
        return None if several else out

    of_view.__name__ = of_view.__qualname__ = name
    of_view.__doc__ = f"What {of}() shows, in memory of its own."
    return _described(rule)(of_view)


for _name in (
    "detach",
    "detach_",
    "get_device",
    "is_distributed",
    "is_inference",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "resize_as_",
    "as_strided_",
):
    globals()[_name] = _method(_name)
for _name, _of in {
    "_conj_copy": "_conj",
    "_neg_view_copy": "_neg_view",
    "alias_copy": "alias",
    "as_strided_copy": "as_strided",
    "detach_copy": "detach",
    "diagonal_copy": "diagonal",
    "expand_copy": "expand",
    "permute_copy": "permute",
    "select_copy": "select",
    "split_copy": "split",
    "split_with_sizes_copy": "split_with_sizes",
    "squeeze_copy": "squeeze",
    "t_copy": "t",
    "transpose_copy": "transpose",
    "unbind_copy": "unbind",
    "unfold_copy": "unfold",
    "unsqueeze_copy": "unsqueeze",
    "view_copy": "reshape",
    "ccol_indices_copy": "ccol_indices",
    "col_indices_copy": "col_indices",
    "crow_indices_copy": "crow_indices",
    "indices_copy": "indices",
    "row_indices_copy": "row_indices",
    "values_copy": "values",
}.items():
    globals()[_name] = _copy_of(_name, _of)
narrow_copy = _copy_of("narrow_copy", "narrow", _Out(warns=False))


def view_as_real_copy(input: Any) -> Any:
    """What view_as_real() shows, in memory of its own."""
    return _NAMESPACE["view_as_real"](input).clone()


def view_as_complex_copy(input: Any) -> Any:
    """What view_as_complex() shows, in memory of its own."""
    return _NAMESPACE["view_as_complex"](input).clone()


def slice_copy(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """input[start:end:step] along `dim`, in memory of its own."""
    return input[(slice(None),) * (dim % input.ndim) + (slice(start, end, step),)].clone()


def frobenius_norm(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The square root of the sum of squares over `dim` (one or two dimensions, or all)."""
    dims = [dim] if isinstance(dim, int) else list(dim)
    return input.norm(2, dims or None, keepdim)


# ---------------------------------------------------------------- deprecated


@_older("'set_vital' is deprecated, please do not call", UserWarning)
def set_vital(*words: Any) -> None:
    """A word for statistics that nobody keeps, as in PyTorch."""


def _deprecated(name: str, instead: str, action: Any) -> Any:
    call = _older(f"torch.{name}() is deprecated. Please use torch.{instead} instead.", DeprecationWarning)(action)
    call.__module__, call.__name__, call.__qualname__ = __name__, name, name
    call.__doc__ = f"The older form of torch.{instead}."
    return call


for _kind, _device in (("cpu", "cpu"), ("gpu", "cuda"), ("ipu", "ipu"), ("xla", "xla")):
    _name = f"is_autocast_{_kind}_enabled"
    globals()[_name] = _deprecated(_name, f"is_autocast_enabled('{_device}')", functools.partial(is_autocast_enabled, _device))
    _name = f"set_autocast_{_kind}_enabled"
    globals()[_name] = _deprecated(
        _name, f"set_autocast_enabled('{_device}', enabled)", functools.partial(set_autocast_enabled, _device)
    )
    _name = f"get_autocast_{_kind}_dtype"
    globals()[_name] = _deprecated(_name, f"get_autocast_dtype('{_device}')", functools.partial(get_autocast_dtype, _device))
    _name = f"set_autocast_{_kind}_dtype"
    globals()[_name] = _deprecated(
        _name, f"set_autocast_dtype('{_device}', dtype)", functools.partial(set_autocast_dtype, _device)
    )

# ---------------------------------------------------------------- what is not there


class AggregationType(enum.Enum):
    """How a benchmark's figures are combined."""

    SUM = 0
    AVG = 1


SUM, AVG = AggregationType.SUM, AggregationType.AVG


class FatalError(RuntimeError):
    """An error that ends the program."""


globals().update(_TYPED_STORAGES)
Storage = _TYPED_STORAGES["FloatStorage"]
_storage_classes = {UntypedStorage, TypedStorage, *_TYPED_STORAGES.values()}
globals().update(
    _unsupported.all_of(
        "",
        "use torch.jit.load",
        "import_ir_module import_ir_module_from_buffer",
        "DeserializationStorageContext ScriptModuleSerializer SerializationStorageContext LiteScriptModule",
    )
)
globals().update(
    _unsupported.all_of(
        "",
        "write the program in Python and compile it with torch.jit.script, or with torch.jit.CompilationUnit from a text",
        "parse_type_comment merge_type_from_type_comment",
    )
)
globals().update(
    _unsupported.all_of(
        "",
        "flambeau's compiler has no such object; what a program is, torch.jit.script's graph, code and schema say",
        kinds="AliasDb ArgumentSpec AwaitType BenchmarkConfig BenchmarkExecutionStats BufferDict CallStack Capsule Code "
        "CompleteArgumentSpec ConcreteModuleType ConcreteModuleTypeBuilder DeepCopyMemoTable ExecutionPlan Gradient "
        "GraphExecutorState IODescriptor InferredType LockingLogger ModuleDict NoopLogger OperatorInfo ParameterDict "
        "PyObjectType RRefType ScriptClass ScriptClassFunction ScriptDictIterator ScriptDictKeyIterator "
        "ScriptListIterator ScriptModule ScriptObjectProperty StaticModule StreamObjType SymBoolType SymIntType "
        "ThroughputBenchmark TracingState",
    )
)
globals().update(
    _unsupported.all_of(
        "",
        "flambeau computes on the CPU; use the operator without the library's name (torch.nn.functional)",
        (
            "cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu "
            "cudnn_convolution_relu "
            "cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable miopen_batch_norm miopen_convolution "
            "miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss "
            "miopen_depthwise_convolution "
            "miopen_rnn mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights "
            "mkldnn_max_pool2d mkldnn_max_pool3d "
            "mkldnn_rnn_layer batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt "
            "batch_norm_gather_stats "
            "batch_norm_gather_stats_with_counts batch_norm_stats native_norm"
        ),
    )
)
globals().update(
    _unsupported.all_of(
        "",
        "use torch.ops.quantized.linear_prepack and linear_dynamic, or torch.ao.quantization.quantize_dynamic",
        "fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight "
        "fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 "
        "fbgemm_pack_quantized_matrix quantized_gru_cell quantized_lstm_cell quantized_rnn_relu_cell quantized_rnn_tanh_cell",
    )
)
#: Names of ops.sparse, which is loaded at the first use of one of them, by their module there.
_SPARSE = {
    "construction": "sparse_coo_tensor sparse_compressed_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor "
    "sparse_bsc_tensor _validate_sparse_coo_tensor_args _validate_sparse_csr_tensor_args _validate_sparse_csc_tensor_args "
    "_validate_sparse_bsr_tensor_args _validate_sparse_bsc_tensor_args _validate_sparse_compressed_tensor_args",
    "places": "_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo",
    "products": "smm hspmm sspaddmm",
    "conversions": "_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo",
    "facts": "resize_as_sparse_ indices_copy values_copy crow_indices_copy col_indices_copy ccol_indices_copy row_indices_copy",
}
#: Names of modules of ops that are loaded at the first use of one of them.
_LATE = {
    "nn.encoder_layer": "_masked_softmax _native_multi_head_attention _transform_bias_rescale_qkv _transformer_encoder_layer_fwd",
    "nn.bags": "_embedding_bag _embedding_bag_forward_only embedding_bag",
    "nn.weight_norm": "_weight_norm norm_except_dim",
    "elementwise.gradient_scaling": "_amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_",
    "nested.construction": "_nested_compute_contiguous_strides_offsets _nested_from_padded "
    "_nested_from_padded_and_nested_example _nested_tensor_from_mask "
    "_nested_tensor_from_mask_left_aligned _nested_tensor_from_tensor_list _nested_view_from_buffer",
    "quantized.training": "fused_moving_avg_obs_fake_quant",
    "quantized.functions": "quantized_batch_norm quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d",
    "quantized.conversion": "_choose_qparams_per_tensor _empty_affine_quantized _empty_per_channel_affine_quantized "
    "_make_per_channel_quantized_tensor _make_per_tensor_quantized_tensor choose_qparams_optimized dequantize empty_quantized "
    "int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point quantize_per_channel "
    "quantize_per_tensor quantize_per_tensor_dynamic",
    "linalg.int_mm": "_int_mm",
    "linalg.weight_only": "_convert_weight_to_int4pack_for_cpu _weight_int4pack_mm_for_cpu _weight_int8pack_mm",
}
_QUANTIZED_LAYERS = ("quantized_gru", "quantized_lstm")
_LATE_OF = {name: room for room, names in _LATE.items() for name in names.split()}
_ROOM_OF = {name: room for room, names in _SPARSE.items() for name in names.split()}
spmm = dsmm = hsmm = _NAMESPACE["mm"]
saddmm = _NAMESPACE["addmm"]
eig, lstsq, matrix_rank, solve, symeig = (_REMOVED[_n] for _n in ("eig", "lstsq", "matrix_rank", "solve", "symeig"))
slice_inverse = _unsupported.function("slice_inverse", "use slice_scatter")


def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """true_fn(*operands) if pred, else false_fn(*operands); one operator of both in an exported program."""
    flow = _importlib.import_module("flambeau.dispatcher.higher_order").flow()
    if flow is not None:
        return flow.cond(pred, true_fn, false_fn, operands)
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def fork(func: Any, *args: Any, **kwargs: Any) -> Any:
    """func(*args, **kwargs) as a torch.jit.Future; it runs at once."""
    return _importlib.import_module("flambeau.jit").fork(func, *args, **kwargs)


def wait(future: Any) -> Any:
    """The result of a Future."""
    return future.wait()


_RECURRENT = frozenset(("gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell"))
# Losses whose form in torch takes reduction as a number (0 "none", 1 "mean", 2 "sum"), and the arguments before it.
_LOSSES = {
    "binary_cross_entropy_with_logits": ("input", "target", "weight", "pos_weight"),
    "kl_div": ("input", "target"),
    "cosine_embedding_loss": ("input1", "input2", "target", "margin"),
    "hinge_embedding_loss": ("input", "target", "margin"),
    "margin_ranking_loss": ("input1", "input2", "target", "margin"),
    "poisson_nll_loss": ("input", "target", "log_input", "full", "eps"),
    "triplet_margin_loss": ("anchor", "positive", "negative", "margin", "p", "eps", "swap"),
}


def _loss(name: str, names: tuple[str, ...]) -> Any:
    if name == "margin_ranking_loss":  # the operator, unlike the function, takes tensors that broadcast
        function = _importlib.import_module("flambeau.ops.nn.loss").broadcast_margin_ranking_loss
    else:
        function = getattr(_importlib.import_module("flambeau.nn.functional"), name)

    def loss(*args: Any, reduction: int = 0, **kwargs: Any) -> Any:
        if len(args) > len(names):
            *args, reduction = args  # type: ignore[assignment]
        return function(**dict(zip(names, args)), **kwargs, reduction=("none", "mean", "sum")[reduction])

    loss.body_is_read = True  # type: ignore[attr-defined]  # by tracers: its reduction, if left out, isn't that of the operator of its name
    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = f"nn.functional.{name} with reduction as a number: 0 none (if left out, as in PyTorch), 1 mean, 2 sum."
    return loss


_OF_PROGRAMS = {
    "CompilationUnit": "jit",
    "FileCheck": "jit.file_check",
    "PyTorchFileReader": "serialize.records",
    "PyTorchFileWriter": "serialize.records",
    "ErrorReport": "jit.ir.source",
    "ScriptDict": "jit.containers",
    "ScriptFunction": "jit.script_function",
    "ScriptList": "jit.containers",
    "ScriptMethod": "jit.script_function",
    "ScriptObject": "jit.execution.runtime",
    "Block": "jit.ir.blocks",
    "Graph": "jit.ir.graph",
    "Node": "jit.ir.nodes",
    **dict.fromkeys(
        """_disable_functionalization _enable_functionalization _from_functional_tensor
        _functionalize_has_data_mutation _functionalize_mutation_counter _functionalize_replace _functionalize_sync
        _is_functional_tensor _sync _to_functional_tensor""".split(),
        "_subclasses.functionalization",
    ),
    **dict.fromkeys(("Use", "Value"), "jit.ir.values"),
    **dict.fromkeys(("ClassType", "EnumType", "InterfaceType", "UnionType", "unify_type_list"), "jit.ir.types"),
}
_OF_THE_DISPATCHER = (
    (frozenset(("Tag",)), lambda: _importlib.import_module("flambeau.dispatcher.tags")),
    (
        frozenset(("DispatchKey", "DispatchKeySet", "ExcludeDispatchKeyGuard")),
        lambda: _importlib.import_module("flambeau.dispatcher.keys"),
    ),
    (frozenset(("Argument", "FunctionSchema", "parse_schema")), lambda: _importlib.import_module("flambeau.dispatcher.schema")),
    (
        frozenset(
            """AnyType BoolType ComplexType DeviceObjType DictType FloatType FutureType IntType ListType NoneType NumberType
            OptionalType StringType TensorType TupleType Type""".split()
        ),
        lambda: _importlib.import_module("flambeau.dispatcher.schema_types"),
    ),
)


def _looking(function: Any) -> Any:
    """An operator that is loaded late, which looks out for proxies and modes as the others do, also those that are there now."""
    _interception.provide(lambda: [function])
    return function


def __getattr__(name: str) -> Any:
    if name in _RECURRENT:
        return getattr(_importlib.import_module("flambeau.nn.modules.recurrence"), name)
    if name in _ROOM_OF:
        from flambeau.ops import sparse

        return _looking(getattr(getattr(sparse, _ROOM_OF[name]), name))
    if name in _LATE_OF:
        return _looking(getattr(_importlib.import_module(f"flambeau.ops.{_LATE_OF[name]}"), name))
    if name in _QUANTIZED_LAYERS:
        return _looking(getattr(_importlib.import_module("flambeau.quantized_ops.recurrent"), name))
    if name in _LOSSES:
        return _loss(name, _LOSSES[name])
    if name in _NAMESPACE:  # declared by the program
        return _NAMESPACE[name]
    if name == "Future":
        return _importlib.import_module("flambeau.jit").Future
    for names, room in _OF_THE_DISPATCHER:
        if name in names:
            return getattr(room(), name)
    if name == "JITException":
        return _importlib.import_module("flambeau.jit").Error
    if name in _OF_PROGRAMS:
        return getattr(_importlib.import_module(f"flambeau.{_OF_PROGRAMS[name]}"), name)
    if name == "GradScaler":
        return _importlib.import_module("flambeau.amp").GradScaler
    raise AttributeError(f"module {__package__!r} has no attribute '{name}'")


def __dir__() -> list[str]:
    """What is offered as the namespace's own: what is defined and imported here, and what `__getattr__` finds."""
    here = [name for name, thing in globals().items() if name[0] != "_" and thing is not Any and not inspect.ismodule(thing)]
    of_the_dispatcher = [name for names, _ in _OF_THE_DISPATCHER for name in names]
    late = [*_RECURRENT, *_QUANTIZED_LAYERS, *_ROOM_OF, *_LATE_OF, *_LOSSES, *_OF_PROGRAMS, *of_the_dispatcher]
    return [*here, *late, "Future", "JITException", "GradScaler"]

"""QConfig: by which observers a module's activations and weights are quantized. Stands on observer and fake_quantize."""

from __future__ import annotations

from typing import Any, NamedTuple

import flambeau as torch
from flambeau.ao.quantization import fake_quantize as fq
from flambeau.ao.quantization import observer as ob

__all__ = [
    "QConfig",
    "QConfigAny",
    "QConfigDynamic",
    "default_activation_only_qconfig",
    "default_debug_qconfig",
    "default_dynamic_qat_qconfig",
    "default_dynamic_qconfig",
    "default_embedding_qat_qconfig",
    "default_embedding_qat_qconfig_4bit",
    "default_per_channel_qconfig",
    "default_per_channel_symmetric_qnnpack_qat_qconfig",
    "default_per_channel_symmetric_qnnpack_qconfig",
    "default_qat_qconfig",
    "default_qat_qconfig_v2",
    "default_qconfig",
    "default_quint8_weight_qconfig",
    "default_reuse_input_qconfig",
    "default_symmetric_qnnpack_qat_qconfig",
    "default_symmetric_qnnpack_qconfig",
    "default_weight_only_qconfig",
    "float16_dynamic_qconfig",
    "float16_static_qconfig",
    "float_qparams_weight_only_qconfig",
    "float_qparams_weight_only_qconfig_4bit",
    "get_default_qat_qconfig",
    "get_default_qconfig",
    "per_channel_dynamic_qconfig",
    "qconfig_equals",
]


class _Pair(NamedTuple):
    activation: Any
    weight: Any


class QConfig(_Pair):
    """activation, weight: constructors of observers or fake quantizers (`MinMaxObserver.with_args(...)`), called for each
    module. ValueError for modules in their place.
    """

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        if isinstance(activation, torch.nn.Module) or isinstance(weight, torch.nn.Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. Use "
                "MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)

    def __repr__(self) -> str:
        return f"QConfig(activation={self.activation!r}, weight={self.weight!r})"


class QConfigDynamic(_Pair):
    """The older form of QConfig for modules that are quantized at run time."""

    __slots__ = ()

    def __new__(cls, activation: Any = torch.nn.Identity, weight: Any = torch.nn.Identity) -> QConfigDynamic:
        if isinstance(weight, torch.nn.Module):
            raise ValueError(
                "QConfigDynamic received observer instance, please pass observer class instead. Use "
                "MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None

_NARROW_ACTIVATION = {"dtype": torch.qint8, "reduce_range": False, "eps": 2**-12}
default_qconfig = QConfig(ob.default_observer, ob.default_weight_observer)
default_debug_qconfig = QConfig(weight=ob.default_weight_observer, activation=ob.default_debug_observer)
default_per_channel_qconfig = QConfig(ob.default_observer, ob.default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(ob.default_dynamic_quant_observer, ob.default_weight_observer)
float16_dynamic_qconfig = QConfig(
    ob.PlaceholderObserver.with_args(dtype=torch.float16, is_dynamic=True), ob.PlaceholderObserver.with_args(dtype=torch.float16)
)
float16_static_qconfig = QConfig(
    ob.PlaceholderObserver.with_args(dtype=torch.float16), ob.PlaceholderObserver.with_args(dtype=torch.float16)
)
per_channel_dynamic_qconfig = QConfig(ob.default_dynamic_quant_observer, ob.default_per_channel_weight_observer)
float_qparams_weight_only_qconfig = QConfig(ob.default_placeholder_observer, ob.default_float_qparams_observer)
float_qparams_weight_only_qconfig_4bit = QConfig(ob.default_placeholder_observer, ob.default_float_qparams_observer_4bit)
default_qat_qconfig = QConfig(fq.default_fake_quant, fq.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(fq.default_dynamic_fake_quant, fq.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(torch.nn.Identity, fq.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(fq.default_fake_quant, torch.nn.Identity)
default_qat_qconfig_v2 = QConfig(fq.default_fused_act_fake_quant, fq.default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(ob.default_reuse_input_observer, ob.NoopObserver)
default_symmetric_qnnpack_qconfig = QConfig(
    ob.HistogramObserver.with_args(**_NARROW_ACTIVATION), ob.weight_observer_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    ob.HistogramObserver.with_args(**_NARROW_ACTIVATION), ob.per_channel_weight_observer_range_neg_127_to_127
)
_NARROW_TRAINED = fq.FusedMovingAvgObsFakeQuantize.with_args(
    observer=ob.MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8, reduce_range=False, eps=2**-12
)
default_symmetric_qnnpack_qat_qconfig = QConfig(_NARROW_TRAINED, fq.fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _NARROW_TRAINED, fq.fused_per_channel_wt_fake_quant_range_neg_127_to_127
)
default_embedding_qat_qconfig = QConfig(ob.NoopObserver.with_args(dtype=torch.float32), fq.default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit = QConfig(ob.NoopObserver.with_args(dtype=torch.float32), fq.default_embedding_fake_quant_4bit)
default_quint8_weight_qconfig = QConfig(ob.HistogramObserver, ob.MinMaxObserver)

_BACKENDS = ("fbgemm", "x86", "qnnpack", "onednn")


def _refuse_backend(backend: str) -> AssertionError:
    return AssertionError(f"backend: {backend} not supported. backend must be one of {list(_BACKENDS)}")


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """The qconfig for post-training quantization with the kernels of a backend. AssertionError for others."""
    if backend not in _BACKENDS:
        raise _refuse_backend(backend)
    if version != 0:
        raise AssertionError(f"Version number: {version} in get_default_qconfig is not supported. Version number must be 0")
    reduced = {"fbgemm": True, "x86": True, "qnnpack": False, "onednn": False}[backend]
    weight = ob.default_weight_observer if backend == "qnnpack" else ob.default_per_channel_weight_observer
    return QConfig(ob.HistogramObserver.with_args(reduce_range=reduced), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """The qconfig for quantization-aware training for a backend; version 0 with FakeQuantize, 1 with the fused form."""
    if backend not in _BACKENDS:
        raise _refuse_backend(backend)
    if version not in (0, 1):
        raise AssertionError(
            f"Version number: {version}in get_default_qat_qconfig is not supported. Version number must be 0 or 1"
        )
    made: Any = fq.FakeQuantize if version == 0 else fq.FusedMovingAvgObsFakeQuantize
    reduced = {"fbgemm": True, "x86": True, "qnnpack": False, "onednn": False}[backend]
    activation = {"observer": ob.MovingAverageMinMaxObserver, "quant_min": 0, "quant_max": 255}
    if backend != "onednn":
        activation["reduce_range"] = reduced
    by_channel, whole = (
        (fq.default_per_channel_weight_fake_quant, fq.default_weight_fake_quant)
        if version == 0
        else (fq.default_fused_per_channel_wt_fake_quant, fq.default_fused_wt_fake_quant)
    )
    return QConfig(made.with_args(**activation), whole if backend == "qnnpack" else by_channel)


def _partial_equal(a: Any, b: Any) -> bool:
    if hasattr(a, "p") and hasattr(b, "p"):
        same = a.p.func == b.p.func and a.p.args == b.p.args
        one, other = dict(a.p.keywords), dict(b.p.keywords)
        if "observer" in one and "observer" in other:
            same = same and _partial_equal(one.pop("observer"), other.pop("observer"))
        return same and one == other
    return bool(a == b)


def qconfig_equals(q1: Any, q2: Any) -> bool:
    """Whether two qconfigs make the same observers."""
    if q1 is None or q2 is None:
        return q1 == q2
    return _partial_equal(q1.activation, q2.activation) and _partial_equal(q1.weight, q2.weight)


obs_or_fq_ctr_equals = _partial_equal


def _assert_valid_qconfig(qconfig: Any, mod: Any) -> None:
    """AssertionError for weights by channel of a transposed convolution, which no kernel takes."""
    if qconfig is None:
        return
    transposed = (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d)
    if isinstance(mod, transposed) and qconfig.weight is not None:
        weight = qconfig.weight()
        assert not isinstance(weight, (ob.PerChannelMinMaxObserver, ob.MovingAveragePerChannelMinMaxObserver)), (
            "Per channel weight observer is not supported yet for ConvTranspose{n}d."
        )


def _add_module_to_qconfig_obs_ctr(qconfig: Any, module: Any) -> Any:
    """The qconfig; everything is on the CPU, so that nothing has to be said of the device."""
    return qconfig

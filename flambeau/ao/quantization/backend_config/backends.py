"""The BackendConfigs of the quantized kernels. Stands on the tables of `operators`."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.ao.quantization.backend_config import operators as table
from flambeau.ao.quantization.backend_config.backend_config import BackendConfig, DTypeConfig, DTypeWithConstraints

__all__ = [
    "get_fbgemm_backend_config",
    "get_native_backend_config",
    "get_native_backend_config_dict",
    "get_qnnpack_backend_config",
    "get_test_only_legacy_native_backend_config",
    "get_test_only_legacy_native_backend_config_dict",
    "get_x86_backend_config",
]

_QUINT8, _QINT8, _FLOAT, _HALF = torch.quint8, torch.qint8, torch.float, torch.float16
_WEIGHTED = DTypeConfig(_QUINT8, _QUINT8, _QINT8, _FLOAT)
_UNWEIGHTED = DTypeConfig(_QUINT8, _QUINT8)
_DYNAMIC = DTypeConfig(_QUINT8, _FLOAT, _QINT8, _FLOAT, True)
_HALF_DYNAMIC = DTypeConfig(_HALF, _FLOAT, _HALF, _FLOAT, True)
_NORM = DTypeConfig(_QUINT8, _QUINT8, _FLOAT, _FLOAT)
_ROWS = DTypeConfig(_FLOAT, _FLOAT, torch.quint8)
_ROWS_4BIT = DTypeConfig(_FLOAT, _FLOAT, torch.quint4x2)
_HALF_STATIC = DTypeConfig(_HALF, _HALF, _HALF, _HALF)
# Signed integers as XNNPACK has them.
_SIGNED = DTypeWithConstraints(dtype=_QINT8, scale_min_lower_bound=2**-12)
_SIGNED_WEIGHT = DTypeWithConstraints(
    dtype=_QINT8, quant_min_lower_bound=-127, quant_max_upper_bound=127, scale_min_lower_bound=2**-12
)
_SIGNED_WEIGHTED = DTypeConfig(_SIGNED, _SIGNED, _SIGNED_WEIGHT, _FLOAT)
_SIGNED_UNWEIGHTED = DTypeConfig(_SIGNED, _SIGNED)


def _backend(
    name: str,
    convolution: list[DTypeConfig],
    linear: list[DTypeConfig],
    others: list[DTypeConfig],
    *,
    binary: list[DTypeConfig] | None = None,
    fixed: list[DTypeConfig] | None = None,
    norm: list[DTypeConfig] | None = None,
    sharing: list[DTypeConfig] | None = None,
    shapes: bool = True,
) -> BackendConfig:
    made = BackendConfig(name)
    groups: list[Any] = [
        table.convolutions(convolution),
        table.linears(linear),
        table.binary(binary or others),
        table.plain([torch.matmul], binary or others),
        table.plain([torch.cat], others, table._SHARED),
        table.defaults(others),
        table.fixed_ranges(fixed or others),
        table.sharing(sharing or others),
        table.unobserved(others) if shapes else [],
        table.batch_norms(others),
        table.layer_norms(norm) if norm else [],
        table.recurrent([_DYNAMIC, _HALF_DYNAMIC]),
        table.embeddings([_ROWS, _ROWS_4BIT]),
    ]
    for group in groups:
        made.set_backend_pattern_configs(group)
    return made


def get_native_backend_config() -> BackendConfig:
    """All that torch.ops.quantized has kernels for, of either engine."""
    return _backend("native", [_WEIGHTED], [_WEIGHTED, _DYNAMIC, _HALF_DYNAMIC], [_UNWEIGHTED], norm=[_NORM])


def get_native_backend_config_dict() -> dict[str, Any]:
    """The same as a dict."""
    return get_native_backend_config().to_dict()


def get_fbgemm_backend_config() -> BackendConfig:
    """The kernels of FBGEMM."""
    return _backend("fbgemm", [_WEIGHTED], [_WEIGHTED, _DYNAMIC, _HALF_DYNAMIC], [_UNWEIGHTED])


def get_x86_backend_config() -> BackendConfig:
    """The kernels of x86 processors."""
    return _backend("x86", [_WEIGHTED], [_WEIGHTED, _DYNAMIC, _HALF_DYNAMIC], [_UNWEIGHTED], binary=[_WEIGHTED])


def get_qnnpack_backend_config() -> BackendConfig:
    """The kernels of QNNPACK: signed activations too, with XNNPACK's constraints."""
    return _backend(
        "qnnpack",
        [_SIGNED_WEIGHTED, _WEIGHTED],
        [_SIGNED_WEIGHTED, _WEIGHTED, _DYNAMIC, _HALF_DYNAMIC],
        [_SIGNED_UNWEIGHTED, _UNWEIGHTED],
        shapes=False,
    )


def get_test_only_legacy_native_backend_config() -> BackendConfig:
    """The native kernels and half-precision references beside them."""
    return _backend(
        "_native_and_fp16",
        [_WEIGHTED, _HALF_STATIC],
        [_WEIGHTED, _DYNAMIC, _HALF_DYNAMIC, _HALF_STATIC],
        [_UNWEIGHTED],
        binary=[_UNWEIGHTED, _HALF_STATIC],
        fixed=[_UNWEIGHTED, _HALF_STATIC],
        sharing=[_UNWEIGHTED, _HALF_STATIC],
        norm=[_NORM],
    )


def get_test_only_legacy_native_backend_config_dict() -> dict[str, Any]:
    """The same as a dict."""
    return get_test_only_legacy_native_backend_config().to_dict()

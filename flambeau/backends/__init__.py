"""torch.backends: switches of libraries that flambeau doesn't use.

They can be read and set; kernels here don't depend on them.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

from flambeau.codegen import cpu as processor
from flambeau.core.modes.settings import get_float32_matmul_precision, set_float32_matmul_precision

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "cusparselt",
    "kleidiai",
    "mha",
    "miopen",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
    "quantized",
]
fp32_precision = "none"


class Switches:
    """A group of switches by name; only those that PyTorch knows can be set."""

    def __init__(self, **switches: Any):
        self.__dict__.update(switches)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise AttributeError(f"Unknown attribute {name}")
        self.__dict__[name] = value


_frozen = [False]


def disable_global_flags() -> None:
    """Have switches be set by their contexts only, from now on: setting one by itself raises RuntimeError."""
    _frozen[0] = True


def flags_frozen() -> bool:
    """Whether disable_global_flags was called."""
    return _frozen[0]


class _Module(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        if _frozen[0] and name in self.__dict__:
            raise RuntimeError(
                f"not allowed to set torch.backends.{self.__name__.rpartition('.')[2]} flags after "
                "disable_global_flags; please use flags() context manager instead"
            )
        self.__dict__[name] = value


def _module(name: str, doc: str, **contents: Any) -> Any:
    """A module flambeau.backends.<name> with these functions and switches."""
    made = _Module(f"{__name__}.{name}", doc)
    made.__dict__.update(contents)
    sys.modules[made.__name__] = made
    return made


def _never(*args: Any, **kwargs: Any) -> bool:
    """False: the library is not part of flambeau."""
    return False


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Nothing to do."""


@contextlib.contextmanager
def __allow_nonbracketed_mutation() -> Iterator[None]:
    """A block in which switches may be set one by one, whether or not they are frozen."""
    before, _frozen[0] = _frozen[0], False
    try:
        yield
    finally:
        _frozen[0] = before


_unfrozen = __allow_nonbracketed_mutation


class _Flags:
    """`flags(name=value, ...)`: a context in which switches of a module have other values."""

    def __init__(self, module: Any, names: tuple[str, ...]):
        self.module, self.names = module, names

    def __call__(self, *values: Any, **switches: Any) -> Any:
        return self.inside(dict(zip(self.names, values)) | switches)

    @contextlib.contextmanager
    def inside(self, switches: dict[str, Any]) -> Iterator[None]:
        """The block itself."""
        before = {name: getattr(self.module, name) for name in switches if hasattr(self.module, name)}
        with _unfrozen():
            for name in before:
                setattr(self.module, name, switches[name])
        try:
            yield
        finally:
            with _unfrozen():
                for name, value in before.items():
                    setattr(self.module, name, value)


cudnn: Any = _module(
    "cudnn",
    "cuDNN, which is not there.",
    enabled=True,
    benchmark=False,
    benchmark_limit=None,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
    is_available=_never,
    version=_nothing,
    is_acceptable=_never,
    conv=Switches(fp32_precision="none"),
    rnn=Switches(fp32_precision="none"),
    CUDNN_TENSOR_DTYPES=frozenset(),
)
cudnn.flags = _Flags(cudnn, ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision"))


def _set_cudnn_flags(
    _enabled: Any = None,
    _benchmark: Any = None,
    _benchmark_limit: Any = None,
    _deterministic: Any = None,
    _allow_tf32: Any = None,
    _fp32_precision: Any = None,
) -> None:
    """Set those switches of cuDNN that are given."""
    for name, value in list(locals().items()):
        if value is not None:
            cudnn.__dict__[name[1:]] = value


cudnn.set_flags = _set_cudnn_flags


class _MatmulSwitches(Switches):
    """Precision of CUDA's matrix products; allow_tf32 and set_float32_matmul_precision are one switch."""

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 products may be less exact."""
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        set_float32_matmul_precision("high" if value else "highest")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "allow_tf32":
            _MatmulSwitches.allow_tf32.fset(self, value)  # type: ignore[attr-defined]
        else:
            super().__setattr__(name, value)


class cuFFTPlanCacheManager:
    """The plans of cuFFT: there are none."""

    size, max_size = 0, 0

    def __getitem__(self, device: Any) -> Any:
        raise RuntimeError("cufft_plan_cache: got device index out of range: there is no CUDA device")

    def clear(self) -> None:
        """Nothing to clear."""


class SDPAParams:
    """What a choice of attention kernels depends on."""

    def __init__(
        self, query: Any, key: Any, value: Any, attn_mask: Any, dropout: float, is_causal: bool, enable_gqa: bool = False
    ):
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


_kernels = dict.fromkeys(("flash", "mem_efficient", "math", "cudnn", "fp16_bf16_reduction_math"), True)
_kernels["fp16_bf16_reduction_math"] = False
_libraries = {"blas": "default", "linalg": "default", "rocm_fa": "default"}


def _reader(name: str) -> Any:
    def enabled() -> bool:
        return _kernels[name]

    enabled.__doc__ = f"Whether {name} attention is allowed."
    return enabled


def _writer(name: str) -> Any:
    def enable(enabled: bool) -> None:
        _kernels[name] = bool(enabled)

    enable.__doc__ = f"Allow {name} attention; on the CPU there is one kernel, which is always used."
    return enable


def _preferred(name: str) -> Any:
    def preferred(backend: Any = None) -> Any:
        if backend is not None:
            _libraries[name] = backend
        return _libraries[name]

    preferred.__doc__ = f"The preferred {name} library of CUDA; asks, and sets it if one is given."
    return preferred


@contextlib.contextmanager
def _sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[Any]:
    """Context that allows some attention kernels."""
    before = dict(_kernels)
    _kernels.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield {}
    finally:
        _kernels.update(before)


cuda: Any = _module(
    "cuda",
    "CUDA's libraries, which are not there.",
    is_built=_never,
    matmul=_MatmulSwitches(
        allow_fp16_reduced_precision_reduction=True,
        allow_bf16_reduced_precision_reduction=True,
        allow_fp16_accumulation=False,
        fp32_precision="none",
    ),
    cufft_plan_cache=cuFFTPlanCacheManager(),
    cuFFTPlanCacheManager=cuFFTPlanCacheManager,
    SDPAParams=SDPAParams,
    sdp_kernel=_sdp_kernel,
    can_use_flash_attention=_never,
    can_use_efficient_attention=_never,
    can_use_cudnn_attention=_never,
    is_flash_attention_available=_never,
    is_ck_sdpa_available=_never,
    preferred_blas_library=_preferred("blas"),
    preferred_linalg_library=_preferred("linalg"),
    preferred_rocm_fa_library=_preferred("rocm_fa"),
    flash_sdp_enabled=_reader("flash"),
    enable_flash_sdp=_writer("flash"),
    math_sdp_enabled=_reader("math"),
    enable_math_sdp=_writer("math"),
    mem_efficient_sdp_enabled=_reader("mem_efficient"),
    enable_mem_efficient_sdp=_writer("mem_efficient"),
    cudnn_sdp_enabled=_reader("cudnn"),
    enable_cudnn_sdp=_writer("cudnn"),
    fp16_bf16_reduction_math_sdp_allowed=_reader("fp16_bf16_reduction_math"),
    allow_fp16_bf16_reduction_math_sdp=_writer("fp16_bf16_reduction_math"),
)

mkldnn: Any = _module(
    "mkldnn",
    "oneDNN, which is not there.",
    enabled=True,
    deterministic=False,
    allow_tf32=False,
    fp32_precision="none",
    is_available=_never,
    is_acl_available=_never,
    matmul=Switches(fp32_precision="none"),
    conv=Switches(fp32_precision="none"),
    rnn=Switches(fp32_precision="none"),
    VERBOSE_OFF=0,
    VERBOSE_ON=1,
    VERBOSE_ON_CREATION=2,
)
mkldnn.flags = _Flags(mkldnn, ("enabled", "deterministic", "allow_tf32", "fp32_precision"))
mkldnn.verbose = lambda level: contextlib.nullcontext()
mkl: Any = _module(
    "mkl",
    "MKL, which is not there.",
    is_available=_never,
    VERBOSE_OFF=0,
    VERBOSE_ON=1,
    verbose=lambda enable: contextlib.nullcontext(),
)
mps: Any = _module("mps", "Metal, which is not there.", is_available=_never, is_built=_never, is_macos_or_newer=_never)
openmp: Any = _module("openmp", "OpenMP: kernels run on threads of their own instead.", is_available=_never)
nnpack: Any = _module("nnpack", "NNPACK, which is not there.", is_available=_never, set_flags=lambda _enabled: (False,))
nnpack.flags = lambda enabled=False: contextlib.nullcontext()
opt_einsum: Any = _module(
    "opt_einsum",
    "opt_einsum, which is not used: einsum contracts from left to right.",
    is_available=_never,
    get_opt_einsum=_nothing,
    enabled=False,
    strategy=None,
)
opt_einsum.flags = _Flags(opt_einsum, ("enabled", "strategy"))
cusparselt: Any = _module("cusparselt", "cuSPARSELt, which is not there.", is_available=_never, version=_nothing)
kleidiai: Any = _module("kleidiai", "KleidiAI, which is not there.", is_available=_never)
miopen: Any = _module("miopen", "MIOpen, which is not there.", immediate=False)
miopen.flags = _Flags(miopen, ("immediate",))
miopen.set_flags = lambda _immediate: miopen.__dict__.update(immediate=bool(_immediate))
mha: Any = _module("mha", "The fast path of multi-head attention.", get_fastpath_enabled=lambda: mha._enabled, _enabled=True)
mha.set_fastpath_enabled = lambda value: mha.__dict__.update(_enabled=bool(value))
quantized: Any = _module(
    "quantized",
    "Whose kernels of quantized tensors are meant: qconfigs are chosen by it, the kernels are flambeau's for all.",
    engine="x86",
    supported_engines=["qnnpack", "onednn", "x86", "fbgemm"],
)


class _Engine(_Module):
    """The module above, whose engine may be set at any time. RuntimeError for an unknown one."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "engine" and value not in ("none", *self.supported_engines):
            raise RuntimeError(f"{value} is not a valid value for quantized engine")
        self.__dict__[name] = value


types.ModuleType.__setattr__(quantized, "__class__", _Engine)


def _capability() -> str:
    """The widest vectors of this CPU: AVX512, AVX2 or DEFAULT."""
    return "AVX512" if "avx512f" in processor.features() else "AVX2" if "avx2" in processor.features() else "DEFAULT"


cpu: Any = _module("cpu", "The CPU.", get_cpu_capability=_capability)

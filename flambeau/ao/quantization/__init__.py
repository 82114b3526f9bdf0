"""torch.ao.quantization: the marks in a model that is to be quantized; quantizing is not there yet, and says what to do."""

from flambeau.ao.quantization.stubs import DeQuantStub as DeQuantStub
from flambeau.ao.quantization.stubs import QuantStub as QuantStub
from flambeau.ao.quantization.stubs import QuantWrapper as QuantWrapper
from flambeau.core.operator import unsupported as _unsupported

globals().update(
    _unsupported.all_of(
        "ao.quantization.",
        "run the model in float32, bfloat16 or float16 (module.to(torch.bfloat16), torch.autocast)",
        "quantize quantize_dynamic quantize_qat prepare prepare_qat convert fuse_modules fuse_modules_qat "
        "get_default_qconfig "
        "get_default_qat_qconfig get_default_qconfig_mapping get_default_qat_qconfig_mapping "
        "propagate_qconfig_ swap_module",
        "QConfig QConfigMapping FakeQuantize FakeQuantizeBase ObserverBase "
        "MinMaxObserver "
        "MovingAverageMinMaxObserver HistogramObserver PerChannelMinMaxObserver PlaceholderObserver",
    )
)

"""torch.ao.quantization: not there yet; the room says what to do."""

from flambeau.core import absent as _absent

globals().update(
    _absent.all_of(
        "ao.quantization.",
        "run the model in float32, bfloat16 or float16 (module.to(torch.bfloat16), torch.autocast)",
        "quantize quantize_dynamic quantize_qat prepare prepare_qat convert fuse_modules fuse_modules_qat "
        "get_default_qconfig "
        "get_default_qat_qconfig get_default_qconfig_mapping get_default_qat_qconfig_mapping "
        "propagate_qconfig_ swap_module",
        "QConfig QConfigMapping QuantStub DeQuantStub QuantWrapper FakeQuantize FakeQuantizeBase ObserverBase "
        "MinMaxObserver "
        "MovingAverageMinMaxObserver HistogramObserver PerChannelMinMaxObserver PlaceholderObserver",
    )
)

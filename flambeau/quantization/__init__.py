"""torch.quantization: the older name of torch.ao.quantization, which is not there yet; the room says what to do."""

from flambeau.ao.quantization import DeQuantStub as DeQuantStub
from flambeau.ao.quantization import QuantStub as QuantStub
from flambeau.ao.quantization import QuantWrapper as QuantWrapper
from flambeau.core.operator import unsupported as _unsupported

globals().update(
    _unsupported.all_of(
        "quantization.",
        "run the model in float32, bfloat16 or float16 (module.to(torch.bfloat16), torch.autocast)",
        (
            "quantize quantize_dynamic quantize_qat prepare prepare_qat convert fuse_modules get_default_qconfig "
            "get_default_qat_qconfig"
        ),
        "QConfig FakeQuantize ObserverBase MinMaxObserver HistogramObserver",
    )
)

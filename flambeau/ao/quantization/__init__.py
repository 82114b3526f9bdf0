"""torch.ao.quantization: observers, fake quantizers, and models whose modules are exchanged for quantized ones.

Stands on its modules. quantize_fx is imported by itself.
"""

from typing import Any as _Any

from flambeau.ao.quantization.fake_quantize import *
from flambeau.ao.quantization.fuse_modules import fuse_conv_bn as fuse_conv_bn
from flambeau.ao.quantization.fuse_modules import fuse_conv_bn_relu as fuse_conv_bn_relu
from flambeau.ao.quantization.fuse_modules import fuse_convtranspose_bn as fuse_convtranspose_bn
from flambeau.ao.quantization.fuse_modules import fuse_linear_bn as fuse_linear_bn
from flambeau.ao.quantization.fuse_modules import fuse_modules as fuse_modules
from flambeau.ao.quantization.fuse_modules import fuse_modules_qat as fuse_modules_qat
from flambeau.ao.quantization.fuse_modules import get_fuser_method as get_fuser_method
from flambeau.ao.quantization.observer import *
from flambeau.ao.quantization.qconfig import *
from flambeau.ao.quantization.qconfig_mapping import *
from flambeau.ao.quantization.quant_type import QuantType as QuantType
from flambeau.ao.quantization.quantization_mappings import *
from flambeau.ao.quantization.quantize import *
from flambeau.ao.quantization.stubs import DeQuantStub as DeQuantStub
from flambeau.ao.quantization.stubs import QuantStub as QuantStub
from flambeau.ao.quantization.stubs import QuantWrapper as QuantWrapper

ObserverOrFakeQuantize = _Any


def default_eval_fn(model: _Any, calib_data: _Any) -> None:
    """Run a model on all samples of a data set of (samples, target)."""
    for data, _ in calib_data:
        model(data)

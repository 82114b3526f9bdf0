"""torch.ao.quantization.backend_config: which patterns a backend can quantize. Stands on its modules.

The descriptions of other projects' backends (TensorRT, ExecuTorch, oneDNN) are not there; a BackendConfig of one's own is.
"""

from flambeau.ao.quantization.backend_config.backend_config import *
from flambeau.ao.quantization.backend_config.backends import get_fbgemm_backend_config as get_fbgemm_backend_config
from flambeau.ao.quantization.backend_config.backends import get_native_backend_config as get_native_backend_config
from flambeau.ao.quantization.backend_config.backends import get_native_backend_config_dict as get_native_backend_config_dict
from flambeau.ao.quantization.backend_config.backends import get_qnnpack_backend_config as get_qnnpack_backend_config

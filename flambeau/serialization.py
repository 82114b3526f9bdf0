"""torch.serialization: a face of flambeau.serialize."""

from flambeau.base.naming import adopt
from flambeau.core.rebuild import get_layout as _get_layout  # noqa: F401 - what pickles call
from flambeau.serialize import *  # noqa: F403
from flambeau.serialize import __all__ as __all__

adopt(globals(), __all__)

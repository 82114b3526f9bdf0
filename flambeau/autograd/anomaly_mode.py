"""`flambeau.autograd.anomaly_mode`: find the forward line whose derivative fails or becomes NaN."""

from __future__ import annotations

import warnings
from typing import Any

from flambeau.core.autograd.node import anomaly
from flambeau.core.operator.arguments import refused

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]


class detect_anomaly:
    """Context: nodes remember the line that made them; an error in backward, or a NaN if check_nan, names it."""

    def __init__(self, check_nan: bool = True) -> None:
        self.prev = (anomaly.enabled, anomaly.check_nan)
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.prev = (anomaly.enabled, anomaly.check_nan)
        anomaly.set(True, self.check_nan)

    def __exit__(self, *exception: Any) -> None:
        anomaly.set(*self.prev)


class set_detect_anomaly:
    """set_detect_anomaly(mode): switch at once; as a context manager, only inside the block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = (anomaly.enabled, anomaly.check_nan)
        if not isinstance(mode, bool):
            raise refused("set_anomaly_enabled", "enabled", "bool", mode, 1)
        anomaly.set(mode, check_nan)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: Any) -> None:
        anomaly.set(*self.prev)


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on."""
    return anomaly.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection looks for NaN."""
    return anomaly.check_nan

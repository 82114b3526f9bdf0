"""What the caching allocator holds, for the faces of devices.

Stands on core.tensor.storage; used by flambeau.cpu and flambeau.accelerator.
"""

from flambeau.core.tensor.storage import empty_cache, memory_statistics, reset_peak

__all__ = ["empty_cache", "memory_statistics", "reset_peak"]

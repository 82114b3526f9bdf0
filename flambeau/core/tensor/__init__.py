"""The Tensor and its memory: storages, creation, indexing, printing, pickling."""

"""The ways in and out of a tensor: Python, NumPy, DLPack, storages."""

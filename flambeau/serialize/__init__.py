"""Saving and loading: torch.save, torch.load and what torch.serialization offers, in PyTorch's own file formats."""

from flambeau.serialize.allowed import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from flambeau.serialize.locations import default_restore_location, location_tag, register_package
from flambeau.serialize.options import (
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from flambeau.serialize.reading import load
from flambeau.serialize.unsafe import get_unsafe_globals_in_checkpoint
from flambeau.serialize.writing import DEFAULT_PROTOCOL, save

__all__ = [
    "DEFAULT_PROTOCOL", "LoadEndianness", "add_safe_globals", "clear_safe_globals", "default_restore_location",
    "get_crc32_options", "get_default_load_endianness", "get_default_mmap_options", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "load",
    "location_tag", "register_package", "safe_globals", "save", "set_crc32_options", "set_default_load_endianness",
    "set_default_mmap_options", "skip_data",
]  # fmt: skip

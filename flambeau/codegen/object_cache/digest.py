"""SHA-256 without hashlib, which loads OpenSSL: that would take longer than to read all cached kernels of a small program.

Python's own implementation is in `_sha2` (until 3.11 in `_sha256`), which the standard library's `random` takes its digest from,
too; where an interpreter is built without, hashlib serves.
"""

from __future__ import annotations

try:
    from _sha2 import sha256
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found, no-redef]
    except ImportError:
        from hashlib import sha256

__all__ = ["sha256"]

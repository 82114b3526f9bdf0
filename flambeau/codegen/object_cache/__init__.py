"""Compiled code as flat bytes: linked by ourselves, kept on disk, mapped into memory."""

"""Exported programs as data and back: the format of torch.export.save, whose public face is torch._export.serde.

`schema` are the classes of the format, `text` reads and writes them as JSON; `reading` and `writing` go between them and
ExportedProgram. Used by export.pt2_archive.
"""

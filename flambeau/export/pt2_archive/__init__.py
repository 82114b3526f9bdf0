"""torch.export.pt2_archive: .pt2 files as archives of named records."""

from flambeau.export.pt2_archive._archive import PT2ArchiveReader, PT2ArchiveWriter, is_pt2_package

__all__ = ["PT2ArchiveReader", "PT2ArchiveWriter", "is_pt2_package"]

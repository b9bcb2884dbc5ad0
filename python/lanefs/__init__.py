"""LaneFS: a file system in one file, read and written in batches of thousands of paths.

    with lanefs.Volume.open("photos.lane") as volume:
        files = volume.read(["/train/0001.jpg", "/train/0002.jpg"])

`Volume` has the calls, `Files` and `Lookup` are the answers to batches, and `PathSet` keeps paths that are
used more than once.
"""

from lanefs._device import DeviceFiles, DeviceMemory, ExportedMemory
from lanefs._epoch import Batch, Epoch
from lanefs._files import Files, FilesInPlace
from lanefs._kernels import BroughtFiles, DeviceFileTable, MirrorExport
from lanefs._lanefs import ArrowBatch, PathSet, __version__, shuffled
from lanefs._lookup import COLUMNS, Kind, Lookup, Stat
from lanefs._search import EqualFiles, FuzzyNames, Line, Scored
from lanefs._transfer import Counts, Difference, Report, SyncReport, count_tree, on_bar
from lanefs._volume import Volume

__all__ = [
    "COLUMNS",
    "ArrowBatch",
    "Batch",
    "BroughtFiles",
    "Counts",
    "DeviceFileTable",
    "DeviceFiles",
    "DeviceMemory",
    "Difference",
    "Epoch",
    "EqualFiles",
    "ExportedMemory",
    "Files",
    "FilesInPlace",
    "FuzzyNames",
    "Kind",
    "Line",
    "Lookup",
    "MirrorExport",
    "PathSet",
    "Report",
    "Scored",
    "Stat",
    "SyncReport",
    "Volume",
    "__version__",
    "count_tree",
    "on_bar",
    "shuffled",
]

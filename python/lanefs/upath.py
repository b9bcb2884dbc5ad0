"""Paths of a volume for `universal_pathlib`: `UPath("lanefs://tables/a.csv", fo="data.lane")`.

`universal_pathlib` finds this module by its entry point.
"""

from __future__ import annotations

from fsspec import get_filesystem_class
from upath import UPath

# The rules for paths are those of the file system, which is found among the classes that are loaded.
get_filesystem_class("lanefs")


class LanePath(UPath):
    """A path of a volume."""

    __slots__ = ()

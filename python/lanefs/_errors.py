"""Result codes of a batch as exceptions."""

from __future__ import annotations

from lanefs import _lanefs

# By the number of the code.
_CODES = {number: (errno, text) for number, errno, text in _lanefs.codes()}


def error_of(code: int, path: str) -> OSError:
    """The exception of a path that has this code: a `FileNotFoundError`, a `PermissionError` and so on."""
    errno, text = _CODES[code]
    return OSError(errno, text, path)

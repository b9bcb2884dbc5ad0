"""Result codes of a batch as exceptions."""

from __future__ import annotations

import errno

from lanefs import _lanefs

# By the number of the code.
_CODES = {number: (number_of_error, text) for number, number_of_error, text in _lanefs.codes()}

#: The errors that say that a path names no file.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def error_of(code: int, path: str) -> OSError:
    """The exception of a path that has this code: a `FileNotFoundError`, a `PermissionError` and so on."""
    number_of_error, text = _CODES[code]
    return OSError(number_of_error, text, path)


def check_names_none(code: int, path: str) -> None:
    """Checks the code of a path without an answer: it says that the path names no file.

    Another one, such as that of damage, says nothing about the name; it is raised.
    """
    if _CODES[code][0] not in _NO_FILE:
        raise error_of(code, path)

"""The examples of the project's README."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def example(word: str) -> str:
    """Returns the one Python example that has this word."""
    [found] = [code for code in re.findall(r"```python\n(.*?)```", README.read_text(), re.S) if word in code]
    return found

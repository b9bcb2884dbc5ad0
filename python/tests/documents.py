"""Blocks of code of the project's pages, and the comments that tell how they run (CONTRIBUTING.md)."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Comments, which may be none, and the block that follows them at once.
BLOCK = re.compile(r"((?:^<!--(?:(?!-->).)*-->\s*)*)^```python\n(.*?)^```$", re.S | re.M)


@dataclass(frozen=True)
class Block:
    """A block of Python of a page."""

    line: int
    code: str
    # Code that makes what the block takes for granted.
    first: str
    # The reason why it does not run.
    not_run: str | None


def blocks(page: str) -> list[Block]:
    """Returns the blocks of Python of a page."""
    text = (ROOT / page).read_text()
    found = []
    for match in BLOCK.finditer(text):
        comments = re.findall(r"<!--(.*?)-->", match[1], re.S)
        comments = [comment.strip() for comment in comments]
        first = [comment.removeprefix("first:").strip() for comment in comments if comment.startswith("first:")]
        reasons = [comment.removeprefix("not run:").strip() for comment in comments if comment.startswith("not run:")]
        line = text.count("\n", 0, match.start(2))
        found.append(Block(line, match[2], "\n".join(first), reasons[0] if reasons else None))
    assert len(found) == len(re.findall(r"^```python$", text, re.M)), page
    return found


def example(page: str, word: str) -> str:
    """Returns the one example of a page that has this word."""
    [found] = [block.code for block in blocks(page) if word in block.code]
    return found

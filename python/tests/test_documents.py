"""The examples of the pages, in their order and in one directory. `test_torch.py` runs those with PyTorch."""

import pytest

from documents import ROOT, blocks

PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
PAGES = [page for page in PAGES if blocks(page)]


def run(page, all_blocks):
    """Runs blocks in one namespace, and returns the reasons of those that do not run."""
    namespace, not_run = {}, []
    for block in all_blocks:
        if block.not_run is not None:
            assert block.not_run
            not_run.append(f"{page}:{block.line}: {block.not_run}")
            continue
        # An error names the page and the line.
        exec(compile(block.first, f"{page}, before line {block.line}", "exec"), namespace)
        exec(compile("\n" * block.line + block.code, page, "exec"), namespace)
    return not_run


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    not_run = run(page, blocks(page))
    with capsys.disabled():
        print("".join(f"\nnot run: {reason}" for reason in not_run))


def test_a_wrong_example_is_seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [block, *_] = [block for block in blocks("docs/python.md") if "memoryview" in block.code]
    planted = type(block)(block.line, block.code.replace("volume.resolve(", "volume.resolv("), block.first, None)
    with pytest.raises(AttributeError, match="resolv"):
        run("docs/python.md", [planted])

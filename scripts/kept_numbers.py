#!/usr/bin/env python3
"""Writes the numbers of the pages from the kept reports (docs/results), or compares both.

    scripts/kept_numbers.py --check | --write | --self-test

A page has a table between `<!-- numbers: REPORT COLUMN ... -->` and `<!-- end -->`. Each row begins with a text,
which ends with a comment: the name of the report's row. The script writes the other cells, one for each COLUMN,
and the lines below the table, with report, command, runs and machine:

* `lanefs` is the median of LaneFS, `extra.NAME` another value of LaneFS;
* `NAME` is the ratio to the peer NAME: above 1 LaneFS is better;
* `=NAME` is the median of the peer;
* `peer` and `ratio` are the peer that the comment names after the row, and its ratio. REPORT is `-` there, and
  the comment has `REPORT/ROW PEER`. A PEER `extra.NAME` is a value of the row.

`<!-- numbers: losses -->` stands for a table of all ratios below 1 in the newest report of each kind, and
`<!-- numbers: goals -->` for one of all goals that were not reached. Numbers are rounded down.
"""

import json
import re
import sys
import textwrap
from decimal import ROUND_DOWN, Decimal
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs/results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), RESULTS / "README.md"]
REGION = re.compile(r"^<!-- numbers: (.*?) -->\n(.*?)^<!-- end -->$", re.S | re.M)


def load(name):
    """Returns a report, with its rows by name."""
    report = json.loads((RESULTS / f"{name}.json").read_text())
    report["rows"] = {row["name"]: row for row in report["rows"]}
    return report


def down(value, places):
    """Writes a number, rounded down to so many decimals."""
    return f"{Decimal(str(value)).quantize(Decimal(1).scaleb(-places), ROUND_DOWN):,}"


def number(value):
    """Writes a number with the decimals that say something."""
    return down(value, 0 if value >= 100 else 1 if value >= 10 else 2)


def ratio(value):
    """Writes a ratio."""
    return down(value, 0 if value >= 100 else 1 if value >= 1 else 2 if value >= 0.02 else 3) + "x"


def quantity(value, unit):
    """Writes a cost or a rate with its unit; of `ns/path` the first part."""
    unit = unit.split("/")[0] if unit.split("/")[0] in ("ns", "us", "bytes") else unit
    for smaller, larger in (("ns", "us"), ("us", "ms")):
        if unit == smaller and value >= 10_000:
            value, unit = Decimal(str(value)) / 1000, larger
    return f"{number(value)} {unit}"


def median(row, name):
    """Returns the median of LaneFS or of a peer, or an extra value, with its unit."""
    if name.startswith("extra."):
        extra = name.removeprefix("extra.")
        unit = row["unit"] if extra.endswith("_ns") or extra.startswith("at_") else extra.replace("_", " ")
        return row["extra"][extra], unit
    return (row["lanefs"] if name == "lanefs" else row["peers"][name])["median"], row["unit"]


def ratio_to(row, peer):
    """Returns the ratio to a peer: above 1 LaneFS is better."""
    if not peer.startswith("extra."):
        return row["ratio"].get(peer)
    value, own = median(row, peer)[0], row["lanefs"]["median"]
    return value / own if row["better"] == "less" else own / value


def cell(row, column, peer):
    """Returns the text of one cell."""
    if column in ("lanefs", "peer") or column.startswith(("extra.", "=")):
        name = peer if column == "peer" else column.removeprefix("=")
        if column.startswith("=") and name not in row["peers"]:
            return ""
        return quantity(*median(row, name))
    value = ratio_to(row, peer if column == "ratio" else column)
    return "" if value is None else ratio(value)


def command(name):
    """Returns the command of a report, from the table of docs/results/README.md."""
    table = (RESULTS / "README.md").read_text()
    return re.search(rf"^\| `{name}\.json` \| (`.*?`)", table, re.M)[1]


def source(page, name, rows):
    """Returns the line on a report: its command, and the runs of the rows."""
    runs = [row["lanefs"]["runs"] for row in rows]
    usual = max(set(runs), key=runs.count)
    text = f"[{name}.json]({LINKS[page]}{name}.json): {command(name)}, {times(usual)}"
    other = [f"`{row['name']}`: {times(run)}" for row, run in zip(rows, runs) if run != usual]
    machine = load(name)["machine"]
    processor = machine["processor"].replace("(R)", "").removesuffix(" Processor")
    return text + (f" ({', '.join(other)})" if other else "") + f", {machine['cores']} cores of an {processor}"


def times(runs):
    """Writes a number of runs."""
    return "1 run" if runs == 1 else f"medians of {runs} runs"


# The way from a page to the reports.
LINKS = {page: "docs/results/" if page.parent == ROOT else "" if page.parent == RESULTS else "results/" for page in PAGES}


def table(page, report, columns, body):
    """Returns a table with its cells and the line on the reports."""
    lines, used = [], {}
    for line in body.splitlines():
        match = re.match(r"\| (.*?<!-- (\S+)( \S+)? -->) \|", line)
        if match:
            name, row_name = match[2].split("/") if report == "-" else (report, match[2])
            row = load(name)["rows"][row_name]
            used.setdefault(name, []).append(row)
            line = "| " + " | ".join([match[1], *(cell(row, column, (match[3] or "").strip()) for column in columns)]) + " |"
        if line.startswith("|"):
            lines.append(line)
    sources = "; ".join(source(page, name, rows) for name, rows in used.items())
    note = textwrap.fill(f"{sources}.", 110, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*lines, "", note, ""])


def newest():
    """Returns the name of the newest report of each kind."""
    names = sorted(path.stem for path in RESULTS.glob("*.json"))
    return sorted({name[:-11]: name for name in names}.values())


def losses():
    """Returns the table of all ratios below 1."""
    lines = ["| report | row | peer | LaneFS | peer's | ratio |", "|---|---|---|---|---|---|"]
    for name in newest():
        for row in load(name)["rows"].values():
            for peer, value in sorted(row["ratio"].items()):
                if 0 < value < 1:
                    cells = [f"`{row['name']}`", peer, cell(row, "lanefs", ""), cell(row, "=" + peer, ""), ratio(value)]
                    lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def goals():
    """Returns the table of all goals that were not reached."""
    lines = ["| report | row | goal | LaneFS |", "|---|---|---|---|"]
    for name in newest():
        for row in load(name)["rows"].values():
            for goal in row["goals"]:
                if not goal["reached"]:
                    # `round trips <= 4` is about the value `round_trips` of the row.
                    extra = goal["text"].partition(" <")[0].replace(" ", "_")
                    column = f"extra.{extra}" if extra in row["extra"] else "lanefs"
                    lines.append(f"| {name} | `{row['name']}` | {goal['text']} | {cell(row, column, '')} |")
    return "\n".join([*lines, ""])


def written(page, text):
    """Returns a page with the numbers of the reports."""

    def region(match):
        words = match[1].split()
        made = {"losses": losses, "goals": goals}.get(words[0])
        body = made() if made else table(page, words[0], words[1:], match[2])
        return f"<!-- numbers: {match[1]} -->\n{body}<!-- end -->"

    return REGION.sub(region, text)


def check():
    """Names each page whose numbers are not those of the reports."""
    failed, tables = False, 0
    for page in PAGES:
        text = page.read_text()
        tables += len(REGION.findall(text))
        for number_of_line, (is_, should) in enumerate(zip(text.splitlines(), written(page, text).splitlines()), 1):
            if is_ != should:
                print(f"{page.relative_to(ROOT)}:{number_of_line}: not as the reports say:\n  {is_}\n  {should}")
                failed = True
                break
    print(f"numbers: {tables} tables compared with docs/results")
    return failed or tables == 0


def self_test():
    """Sees that a wrong number is found."""
    assert (down(4.29, 1), number(1589.96), ratio(15.714), ratio(0.5999)) == ("4.2", "1,589", "15.7x", "0.59x")
    assert (quantity(473_434, "ns/lookup"), quantity(1347.08, "MB/s")) == ("473 us", "1,347 MB/s")
    for page in PAGES:
        text = page.read_text()
        assert written(page, text) == text, page
        for match in REGION.finditer(text):
            below_head = text.index("|---|", match.start(2))
            at = re.compile(r"\d(?=[^\d\n]*\|$)", re.M).search(text, below_head).start()
            planted = text[:at] + ("8" if text[at] == "9" else "9") + text[at + 1 :]
            assert written(page, planted) == text != planted, match[1]
    print("numbers: the check finds what was planted")


if sys.argv[1:] == ["--write"]:
    for page in PAGES:
        page.write_text(written(page, page.read_text()))
elif sys.argv[1:] == ["--check"]:
    sys.exit(check())
elif sys.argv[1:] == ["--self-test"]:
    self_test()
else:
    sys.exit(__doc__)

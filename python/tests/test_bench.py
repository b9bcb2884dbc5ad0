"""`python -m lanefs.bench` at tiny sizes: every row is there and well formed. No test checks a time."""

import json
import os
import subprocess
import sys

import pytest

from lanefs import bench


def test_rows_are_measured_and_nothing_is_left(tmp_path, capsys):
    place, report = tmp_path / "place", tmp_path / "report.json"
    place.mkdir()
    words = ["--files", "700", "--runs", "1", "--dir", str(place), "--json", str(report)]
    assert bench.main(words) == bench.EXIT_DONE
    assert list(place.iterdir()) == []
    rows = {row["name"]: row for row in json.loads(report.read_text())["rows"]}
    wanted = {"py-make", "py-read-warm"} | ({"py-read-cold"} if os.geteuid() == 0 else set())
    assert wanted <= rows.keys()
    for row in rows.values():
        assert row["unit"] == "us/file" and row["lanefs"]["median"] > 0
        assert {"indexed-archive", "sqlite"} <= row["peers"].keys() == row["ratio"].keys()
    shown = capsys.readouterr().out
    assert all(name in shown for name in rows)


def test_a_wrong_answer_has_no_time(tmp_path):
    corpus = bench.Corpus(10)
    host = bench.Host(corpus, tmp_path)
    bench.make_timed(host)
    bench.read_checked(host, corpus.order)
    with open(host.paths[3], "r+b") as file:
        file.truncate(8)
    with pytest.raises(ValueError, match="time means nothing"):
        bench.read_timed(host, corpus.order)
    with pytest.raises(ValueError, match="wrong content of class-0000/img-0000003.jpg"):
        bench.read_checked(host, corpus.order)


def test_a_volume_that_loses_a_file_is_noticed(tmp_path):
    corpus = bench.Corpus(10)
    lane = bench.LaneFS(corpus, tmp_path)
    bench.make_timed(lane)
    bench.read_checked(lane, corpus.order)
    lane.volume.remove(lane.paths[3])
    with pytest.raises(FileNotFoundError):
        bench.read_timed(lane, corpus.order)
    lane.close()


@pytest.mark.parametrize(("words", "code"), [(["--files", "0"], 2), (["--dir", "/no/such"], 4)])
def test_wrong_arguments_are_named(words, code):
    run = subprocess.run([sys.executable, "-m", "lanefs.bench", *words], capture_output=True, text=True)
    assert run.returncode == code and words[1] in run.stderr and "Traceback" not in run.stderr

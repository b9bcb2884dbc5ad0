"""Epochs: files read ahead, in batches and in order."""

import gc

import numpy as np
import pytest

import lanefs
from conftest import MIB
from test_processes import in_fork

COUNT = 1000
PATHS = [f"/{i}" for i in range(COUNT)]


@pytest.fixture
def volume():
    with lanefs.Volume.memory(64 * MIB) as volume:
        assert volume.write_many(PATHS, [path.encode() * 50 for path in PATHS]) == {}
        yield volume


def contents(epoch):
    return [(int(row), bytes(file)) for batch in epoch for row, file in zip(batch.rows, batch)]


def test_each_file_comes_once_in_the_order_of_the_seed(volume):
    in_order = [(row, PATHS[row].encode() * 50) for row in range(COUNT)]
    assert contents(volume.epoch(PATHS, 64)) == in_order
    shuffled = contents(volume.epoch(PATHS, 64, seed=7))
    assert shuffled != in_order and sorted(shuffled) == in_order
    assert [row for row, _ in shuffled] == lanefs.shuffled(COUNT, 7).tolist()
    assert shuffled == contents(volume.epoch(PATHS, 100, seed=7, memory=0))


def test_parts_of_workers_are_the_whole(volume):
    order = lanefs.shuffled(COUNT, 3)
    parts = [contents(volume.epoch(PATHS, 10, rows=order[worker::3])) for worker in range(3)]
    assert sorted(row for part in parts for row, _ in part) == list(range(COUNT))


def test_an_epoch_continues_at_its_position(volume):
    epoch = volume.epoch(PATHS, 30, seed=1)
    first = contents([next(epoch), next(epoch)])
    assert epoch.position == 60
    epoch.close()
    assert epoch.position is None and list(epoch) == []
    rest = contents(volume.epoch(PATHS, 30, seed=1, start=60))
    assert first + rest == contents(volume.epoch(PATHS, 30, seed=1))


def test_a_missing_file_has_its_path_and_affects_no_other(volume):
    with volume.epoch([*PATHS, "/no"], 17, seed=2) as epoch:
        errors = [error for batch in epoch for error in batch.errors().values()]
    assert [(type(error), error.filename) for error in errors] == [(FileNotFoundError, "/no")]


def test_memory_of_a_batch_is_its_own_while_it_is_used(volume):
    # Each view outlives its batch, in memory for little more than one.
    views = []
    for batch in volume.epoch(PATHS, 10, memory=4096):
        assert not batch.buffer.flags.writeable and batch[0].readonly
        views.append((int(batch.rows[0]), batch[0]))
        del batch
        gc.collect()
    assert all(bytes(view) == PATHS[row].encode() * 50 for row, view in views)


def test_an_epoch_outlives_its_volume(volume):
    epoch = volume.epoch(PATHS, 10)
    volume.close()
    assert len(contents(epoch)) == COUNT


def test_an_epoch_in_a_fork_is_an_error_and_hangs_nothing(volume):
    epoch = volume.epoch(PATHS, 10)
    held = [next(epoch), epoch]
    assert "forked" in in_fork(lambda: next(epoch))
    assert in_fork(lambda: (epoch.position, epoch.close())) == "(None, None)"

    def drop():
        nonlocal epoch
        del epoch
        held.clear()
        gc.collect()

    assert in_fork(drop) == "None"
    assert len(contents(epoch)) == COUNT - 10


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"start": -1}, "start"),
        ({"start": COUNT + 1}, "starts at"),
        ({"rows": [COUNT]}, "row 1000"),
        ({"seed": 1, "rows": [1]}, "seed and rows"),
        ({"rows": np.array([COUNT + 1], np.uint32)}, "row 1001"),
    ],
)
def test_arguments_that_do_not_fit_are_named(volume, arguments, named):
    with pytest.raises(ValueError, match=named):
        volume.epoch(PATHS, **arguments)

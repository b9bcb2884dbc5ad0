"""Opening and closing, and calls with one path."""

import errno
import os
import pickle
import shutil
import stat
import subprocess
import sys

import pytest

import lanefs
from conftest import FILES, MIB


def test_modes_make_open_and_replace_a_volume(tmp_path):
    path = tmp_path / "v.lane"
    with lanefs.Volume.open(path, "x", size=16 * MIB) as volume:
        volume.write_file("/a", b"first")
    with pytest.raises(FileExistsError, match="exists already") as refused:
        lanefs.Volume.open(path, "x", size=16 * MIB)
    assert (refused.value.errno, refused.value.filename) == (errno.EEXIST, str(path))
    with lanefs.Volume.open(path, "r+") as volume:
        assert volume.read_file("/a") == b"first"
        volume.write_file("/a", b"second")
    with lanefs.Volume.open(str(path)) as volume, lanefs.Volume.open(path, "r") as other:
        assert volume.read_file("/a") == other.read_file("a") == b"second"
        with pytest.raises(OSError) as refused:
            volume.write_file("/a", b"third")
        assert (refused.value.errno, refused.value.filename) == (errno.EROFS, "/a")
    with lanefs.Volume.open(path, "w", size=16 * MIB) as volume:
        assert volume.listdir("/") == []


def test_a_volume_that_cannot_be_opened_is_named(tmp_path):
    missing = tmp_path / "no.lane"
    with pytest.raises(FileNotFoundError) as refused:
        lanefs.Volume.open(missing)
    assert refused.value.filename == str(missing)
    other = tmp_path / "other"
    other.write_bytes(b"x" * 65536)
    with pytest.raises(OSError, match="not a LaneFS volume"):
        lanefs.Volume.open(other)


def test_a_second_process_is_refused(image):
    program = "import sys, lanefs; lanefs.Volume.open(sys.argv[1], sys.argv[2])"
    with lanefs.Volume.open(image, "r+"):
        for mode in ("r", "r+"):
            done = subprocess.run(
                [sys.executable, "-c", program, str(image), mode], stderr=subprocess.PIPE, text=True
            )
            assert f"in use by another process: process {os.getpid()}" in done.stderr
            assert f"[Errno {errno.EBUSY}]" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"mode": "rw"}, "mode"),
        ({"mode": "x"}, "size"),
        ({"mode": "r", "size": MIB}, "size"),
        ({"engine": "abacus"}, "engine"),
    ],
)
def test_a_bad_argument_is_named(image, arguments, named):
    with pytest.raises(ValueError, match=named):
        lanefs.Volume.open(image, **arguments)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda v: lanefs.Volume.memory(-1), "size"),
        (lambda v: v.read(["/top"], threads=-1), "threads"),
        (lambda v: v.read_into(["/top"], bytearray(9), threads=1 << 70), "threads"),
        (lambda v: v.mkdir("/x", -1), "mode"),
        (lambda v: v.chmod("/top", -1), "mode"),
        (lambda v: v.write_many(["/x"], [b""], mode=1 << 40), "mode"),
        (lambda v: v.import_tree("/", threads=-1), "threads"),
        (lambda v: lanefs.Volume.open("x", cache=-1), "cache"),
    ],
)
def test_an_impossible_number_is_named(volume, call, named):
    with pytest.raises(ValueError, match=f"{named} is"):
        call(volume)


def test_a_closed_volume_refuses_every_call(volume):
    assert not volume.closed
    volume.close()
    volume.close()
    assert volume.closed and "closed" in repr(volume)
    for call in (lambda: volume.read(["/top"]), lambda: volume.stat("/top"), volume.listdir, volume.sync):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_attributes_are_those_of_the_file(volume):
    attributes = volume.stat("/data/a.txt")
    assert stat.S_ISREG(attributes.st_mode) and attributes.is_file() and not attributes.is_dir()
    assert (attributes.st_size, attributes.st_nlink, attributes.kind) == (10, 1, lanefs.Kind.FILE)
    volume.utime("/data/a.txt", ns=(5, -7))
    volume.chmod("/data/a.txt", 0o100600)
    attributes = volume.stat("/data/a.txt")
    assert (attributes.st_atime_ns, attributes.st_mtime_ns) == (5, -7)
    assert stat.S_IMODE(attributes.st_mode) == 0o600
    assert volume.stat("/data").is_dir()
    assert volume.stat("/data/link").st_size == 10
    assert volume.stat("/data/link", follow=False).kind == lanefs.Kind.SYMLINK


@pytest.mark.parametrize(
    ("call", "kind", "number", "path"),
    [
        (lambda v: v.stat("/no"), FileNotFoundError, errno.ENOENT, "/no"),
        (lambda v: v.stat("/top/x"), NotADirectoryError, errno.ENOTDIR, "/top/x"),
        (lambda v: v.read_file("/data"), IsADirectoryError, errno.EISDIR, "/data"),
        (lambda v: v.mkdir("/data"), FileExistsError, errno.EEXIST, "/data"),
        (lambda v: v.rmdir("/data"), OSError, errno.ENOTEMPTY, "/data"),
        (lambda v: v.listdir("/top"), NotADirectoryError, errno.ENOTDIR, "/top"),
        (lambda v: v.remove(b"/\xff"), FileNotFoundError, errno.ENOENT, "/\udcff"),
        (lambda v: v.rename("/top", "/data/a.txt"), FileExistsError, errno.EEXIST, "/top"),
    ],
)
def test_an_error_has_its_class_its_errno_and_its_file(volume, call, kind, number, path):
    with pytest.raises(kind) as refused:
        call(volume)
    assert (refused.value.errno, refused.value.filename) == (number, path)


def test_the_tree_can_be_changed(volume):
    volume.makedirs("/new/er")
    volume.rename("/top", "/new/er/top")
    volume.replace("/new/er/top", "/data/a.txt")
    assert volume.read_file("/data/a.txt") == b"x" and not volume.exists("/top")
    assert volume.readlink("/data/link") == "a.txt"
    volume.rmdir("/new/er")
    volume.remove("/data/link")
    volume.rmtree("/data")
    assert volume.listdir() == ["new"]


def test_names_that_are_no_unicode_go_and_come_back(volume):
    name = b"/\xff\xfe"
    volume.write_file(name, b"odd")
    assert os.fsdecode(name[1:]) in volume.listdir()
    assert volume.read([os.fsdecode(name)]).to_bytes() == volume.read([name]).to_bytes() == [b"odd"]


def test_a_walk_is_that_of_the_standard_library(volume, tmp_path):
    for path, content in FILES.items():
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).write_bytes(content)
    (tmp_path / "data/link").symlink_to("a.txt")

    def as_set(walk, top):
        return [(os.path.relpath(path, top), sorted(dirs), sorted(files)) for path, dirs, files in walk]

    for topdown in (True, False):
        expected = as_set(os.walk(tmp_path, topdown=topdown), tmp_path)
        assert as_set(volume.walk("/", topdown=topdown), "/") == expected
    pruned = []
    for path, directories, _ in volume.walk("/"):
        pruned.append(path)
        directories.clear()
    assert pruned == ["/"]


def test_a_walk_tells_of_directories_that_it_cannot_list(volume):
    errors = []
    assert list(volume.walk("/no", onerror=errors.append)) == []
    assert [error.filename for error in errors] == ["/no"]


def test_a_deep_tree_is_walked(volume):
    deep = "/d" * 3000
    volume.makedirs(deep)
    assert sum(1 for path, _, _ in volume.walk("/d")) == 3000


def test_a_pickled_volume_opens_itself_again(image):
    with lanefs.Volume.open(image) as volume:
        again = pickle.loads(pickle.dumps(volume))
        with again:
            assert again.read_file("/top") == b"x"
    with lanefs.Volume.open(image, "w", size=16 * MIB) as volume:
        opened = volume.__reduce__()
    # The pickle of a new volume opens it, and does not make it again.
    assert opened[1][1] == "r+"


def test_a_volume_in_memory_cannot_be_pickled(volume):
    with pytest.raises(TypeError, match="memory"):
        pickle.dumps(volume)


def test_changes_are_durable_after_the_last_reference_is_gone(image):
    volume = lanefs.Volume.open(image, "r+")
    volume.write_file("/late", b"late")
    del volume
    with lanefs.Volume.open(image) as volume:
        assert volume.read_file("/late") == b"late"


def test_attributes_are_those_of_os_stat(volume):
    volume.utime("/top", ns=(1_500_000_000, -500_000_000))
    volume.chmod("/top", 0o640)
    volume.chown("/top", 7, 8)
    one = volume.stat("/top")
    named = {stat.ST_MODE: 0o100640, stat.ST_NLINK: 1, stat.ST_UID: 7, stat.ST_GID: 8, stat.ST_SIZE: 1}
    named |= {stat.ST_ATIME: 1, stat.ST_MTIME: -1, stat.ST_INO: one.st_ino, stat.ST_DEV: 0}
    assert {index: one[index] for index in named} == named and len(one) == 10
    assert list(one) == list(one[:]) == [one[index] for index in range(10)]
    assert (one.st_atime, one.st_mtime, one.st_dev, one.st_blksize) == (1.5, -0.5, 0, 4096)
    assert one.st_ctime == one.st_ctime_ns / 1e9 and one.st_birthtime == one.st_birthtime_ns / 1e9
    assert one.is_file() and not one.is_dir() and not one.is_symlink()
    assert volume.stat("/data/link", follow=False).is_symlink()
    assert pickle.loads(pickle.dumps(one)) == one and os.path.samestat(one, volume.stat("/top"))
    volume.chown("/top", -1, 9)
    assert (volume.stat("/top").st_uid, volume.stat("/top").st_gid) == (7, 9)
    with pytest.raises(ValueError, match="uid"):
        volume.chown("/top", -2, 0)


def test_links_sizes_copies_and_attributes(volume):
    volume.link("/top", "/hard")
    assert volume.stat("/top").st_nlink == 2 and volume.stat("/hard").st_ino == volume.stat("/top").st_ino
    content = bytes(3 * MIB) + b"end"
    volume.write_file("/big", content)
    volume.chmod("/big", 0o640)
    volume.copy("/big", "/copy")
    assert volume.read_file("/copy") == content and volume.stat("/copy").st_mode == 0o100640
    # Zeros take no room.
    assert volume.stat("/copy").st_blocks < 100
    volume.symlink("top", "/soft")
    for same in ("/top", "/hard", "/soft"):
        with pytest.raises(shutil.SameFileError):
            volume.copy("/top", same)
    assert volume.read_file("/top") == b"x"
    for missing in (("/no", "/new"), ("/data", "/new"), ("/top", "/no/new")):
        with pytest.raises(OSError):
            volume.copy(*missing)
    assert not volume.exists("/new")
    volume.truncate("/copy", 3)
    assert volume.read_file("/copy") == bytes(3)
    volume.setxattr("/top", "user.colour", b"red")
    assert volume.getxattr("/hard", "user.colour") == b"red" and volume.listxattr("/top") == ["user.colour"]
    volume.removexattr("/top", "user.colour")
    with pytest.raises(OSError) as missing:
        volume.getxattr("/top", "user.colour")
    assert missing.value.errno == errno.ENODATA
    space = volume.statvfs()
    assert space.f_bsize * space.f_blocks == 64 * MIB and 0 < space.f_bfree < space.f_blocks
    assert 0 < space.f_ffree < space.f_files and space.f_namemax == 255


def test_questions_about_types(volume):
    volume.symlink("nowhere", "/none")
    assert volume.isfile("/top") and volume.isfile("/data/link") and not volume.isfile("/data")
    assert volume.isdir("/data") and not volume.isdir("/none") and not volume.isdir("/no")
    assert volume.islink("/none") and volume.islink("/data/link") and not volume.islink("/top")


def test_a_volume_tells_its_path_and_mode(image, volume):
    with lanefs.Volume.open(image, "r+") as opened:
        assert (opened.path, opened.mode) == (str(image), "r+")
        assert str(image) in repr(opened) and "'r+'" in repr(opened)
        with pytest.raises(TypeError, match="open_file"):
            opened.open("/top", "wb")
    assert "closed" in repr(opened)
    assert (volume.path, volume.mode) == ("memory", "r+")


def test_makedirs_may_insist_on_a_new_directory(volume):
    volume.makedirs("/a/b")
    volume.makedirs("/a/b")
    with pytest.raises(FileExistsError):
        volume.makedirs("/a/b", exist_ok=False)
    volume.makedirs("/a/c/d/", exist_ok=False)
    volume.makedirs("e", exist_ok=False)
    assert volume.isdir("/a/c/d") and volume.isdir("/e")


def test_walk_has_the_arguments_of_os_walk(volume):
    volume.symlink("deep", "/data/way")
    assert sorted(volume.listdir("/data")) == ["a.txt", "b.txt", "deep", "link", "way"]
    [(top, directories, files), *rest] = volume.walk("/data", True, None, False)
    assert (top, sorted(directories), sorted(files)) == ("/data", ["deep", "way"], ["a.txt", "b.txt", "link"])
    assert [top for top, _, _ in rest] == ["/data/deep", "/data/deep/er"]
    followed = {top for top, _, _ in volume.walk("/data", followlinks=True)}
    assert followed == {"/data", "/data/deep", "/data/deep/er", "/data/way", "/data/way/er"}

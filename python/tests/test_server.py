"""Publications on moto, an S3 server that another project wrote."""

import socket
import subprocess
import sys
import time
import urllib.request

import pytest

import lanefs
from conftest import FILES

# Longer than the server takes to start on a busy machine.
START_SECONDS = 120


@pytest.fixture(scope="module")
def endpoint():
    """The URL of a server with a bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, "moto does not start"
                time.sleep(0.1)
        yield url
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def credentials(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


def test_a_volume_is_published_read_and_published_again(endpoint, credentials, image, tmp_path):
    url = "s3://bucket/folder"

    def opened(url):
        return lanefs.Volume.open(url, endpoint=endpoint, cache_dir=tmp_path / "cache")

    with pytest.raises(OSError, match="no such tag"):
        opened(url)
    with lanefs.Volume.open(image) as volume:
        first = volume.publish(url, endpoint=endpoint)
    with opened(url) as there:
        assert [bytes(file) for file in there.read(list(FILES))] == list(FILES.values())
    with lanefs.Volume.open(image, "r+") as volume:
        volume.write_file("/top", b"changed")
        # A volume that is in use, and a tag that is replaced only if it is the one that was read.
        second = volume.publish(url, endpoint=endpoint)
    assert first != second
    with opened(url) as there, opened(first) as before:
        assert (there.read_file("/top"), before.read_file("/top")) == (b"changed", FILES["/top"])


def test_what_the_server_refuses_is_an_error_that_names_the_url(endpoint, credentials, image):
    with lanefs.Volume.open(image) as volume, pytest.raises(OSError, match="s3://none/folder"):
        volume.publish("s3://none/folder", endpoint=endpoint)

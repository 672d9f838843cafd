"""What is downloaded is compared with the digest that it is cached under."""

import hashlib

import pytest
from huggingface_hub import constants

from hf_localattn.downloads import verified_downloads

CONTENT = b"the right one"
DIGESTS = {
    "of git": hashlib.sha1(b"blob 13\0" + CONTENT).hexdigest(),
    "of a large file": hashlib.sha256(CONTENT).hexdigest(),
    "of a mirror": hashlib.sha1(CONTENT).hexdigest(),
}


@pytest.fixture
def download(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))

    def put(tag, content, name="model.safetensors"):
        repository = tmp_path / "models--somebody--model"
        for folder in ("blobs", "snapshots/abc"):
            (repository / folder).mkdir(parents=True, exist_ok=True)
        blob = repository / "blobs" / tag
        blob.write_bytes(content)
        link = repository / "snapshots" / "abc" / name
        link.symlink_to(f"../../blobs/{tag}")
        return blob, link

    return put


@pytest.mark.parametrize("tag", DIGESTS.values(), ids=DIGESTS)
def test_the_right_content_stays_and_another_one_goes(download, tag):
    with verified_downloads("somebody/model"):
        blob, link = download(tag, CONTENT)
    assert blob.read_bytes() == link.read_bytes() == CONTENT
    link.unlink()
    blob.unlink()
    message = r"download of model.safetensors does not have the digest that .* removed from the cache: try again"
    with pytest.raises(OSError, match=message), verified_downloads("somebody/model"):
        blob, link = download(tag, b"the wrong one")
    assert not blob.exists()
    assert not link.is_symlink()


@pytest.mark.parametrize(
    ("content", "message"), [(b"{", "not have the digest that the Hub announced"), (CONTENT, "invalid JSON")]
)
def test_an_error_may_come_from_a_wrong_file(download, content, message):
    def load():
        download(DIGESTS["of git"], content, name="config.json")
        raise OSError("invalid JSON")

    with pytest.raises(OSError, match=message), verified_downloads("somebody/model"):
        load()


@pytest.mark.parametrize("tag", ["d41d8cd98f00b204e9800998ecf8427e", "an-etag"])
def test_names_that_say_nothing_are_taken_as_they_are(download, tag):
    with verified_downloads("somebody/model"):
        blob, _ = download(tag, CONTENT)
    assert blob.exists()


def test_what_was_there_before_is_not_read_again(download):
    blob, _ = download(DIGESTS["of git"], b"the wrong one")
    with verified_downloads("somebody/model"):
        pass
    assert blob.exists()

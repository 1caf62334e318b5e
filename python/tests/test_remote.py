"""Data behind URLs: every sample once, with its own pixels, whatever the store does meanwhile."""

from __future__ import annotations

import io
import os
import random
import struct
import sys
import tarfile
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import forebay
import object_store
import pytest
from conftest import COUNT, SHARDS, SMALL, png, run_command
from object_store import KEY_ID, PASSING, SECRET, Store


def masked_crc(data: bytes) -> bytes:
    table = [0] * 256
    for i in range(256):
        value = i
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table[i] = value
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def field(number: int, data: bytes) -> bytes:
    length, size = b"", len(data)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def example(number: int) -> bytes:
    image = field(1, b"image/encoded") + field(2, field(1, field(1, png(5 * number))))
    label = field(1, b"image/class/label") + field(2, field(3, b"\x0a\x01" + bytes([number % 3])))
    data = field(1, field(1, image) + field(1, label))
    head = struct.pack("<Q", len(data))
    return head + masked_crc(head) + data + masked_crc(data)


COMMAND = os.path.join(os.path.dirname(forebay.__file__), "bin", "forebay")
PATTERN = "/data/shard-{00..03}.tar"


def feed(path: str, **options: Any) -> forebay.Feeder:
    return forebay.Feeder(**{"dataset": path, **SMALL, "seed": 1, **options})


def check(feeder: forebay.Feeder, classes: int = 3, epochs: int = 1) -> dict[str, Any]:
    """Each sample as often as there are epochs, with the grey and the label of its number."""
    seen: Counter[int] = Counter()
    with feeder:
        for epoch in feeder.epochs():
            for batch in epoch:
                images, labels = batch.numpy()
                assert (images == (5 * batch.ids)[:, None, None, None]).all()
                if classes:
                    assert (labels == batch.ids % classes).all()
                seen.update(int(i) for i in batch.ids)
        summary = feeder.summary()
    assert seen == Counter({number: epochs for number in range(COUNT)})
    assert summary["bad_samples"] == 0
    return dict(summary)


def test_tar_shards_by_pattern(web: Store, tmp_path: Path) -> None:
    index = tmp_path / "train.index"
    check(feed(web.url + PATTERN, dataset_index=str(index), epochs=2), epochs=2)
    # From the saved index on nothing is asked for but what is read.
    web.requests.clear()
    summary = check(feed(web.url + PATTERN, dataset_index=str(index)))
    assert summary["bytes_from_store"] == summary["bytes_read"] > 0 == summary["cache_share"]
    assert all(wanted is not None for _, wanted in web.requests)
    assert len(web.requests) <= COUNT


def test_an_index_reads_headers_alone(web: Store) -> None:
    large = {path: body for path, body in web.objects.items()}
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number in range(10):
            for ending, data in (("png", png(number)), ("bin", bytes(1 << 20))):
                member = tarfile.TarInfo(f"{number:03}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    web.objects = {**large, "/large.tar": file.getvalue()}
    forebay.Feeder(dataset=web.url + "/large.tar", **{**SMALL, "batch_size": 1}).close()
    read = sum(
        int(wanted.removeprefix("bytes=").split("-")[1]) - int(wanted.removeprefix("bytes=").split("-")[0]) + 1
        for _, wanted in web.requests
        if wanted
    )
    assert read < 1 << 20


def test_tfrecord(web: Store) -> None:
    half = COUNT // 2
    web.objects = {
        f"/train-{i}.tfrecord": b"".join(example(n) for n in range(i * half, (i + 1) * half)) for i in range(2)
    }
    check(feed(web.url + "/train-{0..1}.tfrecord"))


def test_a_list_of_files(web: Store) -> None:
    web.objects = {f"/images/{number:03}.png": png(5 * number) for number in range(COUNT)}
    web.objects["/list.csv"] = "".join(f"images/{number:03}.png,{number % 3}\n" for number in range(COUNT)).encode()
    check(feed(web.url + "/list.csv"))


def test_a_local_list_of_urls(web: Store, tmp_path: Path) -> None:
    web.objects = {f"/images/{number:03}.png": png(5 * number) for number in range(COUNT)}
    lines = "".join(f"{web.url}/images/{number:03}.png,{number % 3}\n" for number in range(COUNT))
    (tmp_path / "list.csv").write_text(lines)
    check(feed(str(tmp_path / "list.csv")))


def test_a_packed_dataset(web: Store, folder: Path, tmp_path: Path) -> None:
    run_command(COMMAND, "pack", str(folder), str(tmp_path / "packed"))
    web.objects = {f"/packed/{file.name}": file.read_bytes() for file in (tmp_path / "packed").glob("*.fbpack")}
    names = sorted(web.objects)
    assert names
    numbers = ",".join(name.removeprefix("/packed/") for name in names)
    check(feed(f"{web.url}/packed/{{{numbers}}}"), classes=0)


def test_a_list_of_class_folders_is_no_web_server(web: Store) -> None:
    with pytest.raises(forebay.Error, match="a web server lists no files"):
        feed(web.url + "/data/")


# ---- S3


# Endpoint and keys are read once in a process.
RUN = """
import json, sys
import forebay
from conftest import SMALL
from test_remote import check, feed
print(json.dumps(check(feed(sys.argv[1]), classes=int(sys.argv[2]))))
"""


def run(url: str, classes: int = 3) -> str:
    return run_command(sys.executable, "-c", RUN, url, str(classes))


def refused(url: str) -> str:
    with pytest.raises(AssertionError) as caught:
        run(url)
    text = str(caught.value)
    assert SECRET not in text
    return text


def test_class_folders_by_prefix(bucket: Store) -> None:
    for number in range(COUNT):
        name = "a cat+é" if number < COUNT // 2 else "dog"
        bucket.objects[f"/bucket/train/{name}/{number:03}.png"] = png(5 * number)
    bucket.objects["/bucket/train/.hidden/x.png"] = b"no image"
    run("s3://bucket/train", 0)
    lists = [path for path, wanted in bucket.requests if path == "/bucket"]
    assert 2 < len(lists) < 20


def test_shards_below_a_prefix(bucket: Store, shards: dict[str, bytes]) -> None:
    bucket.objects = {"/bucket" + path: body for path, body in shards.items()}
    run("s3://bucket/data")
    run("s3://bucket/data/shard-{00..03}.tar")


def test_keys_of_a_profile(
    bucket: Store, shards: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bucket.objects = {"/bucket" + path: body for path, body in shards.items()}
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        f"[other]\naws_access_key_id = x\n[work]\naws_access_key_id = {KEY_ID}\naws_secret_access_key={SECRET}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "work")
    run("s3://bucket" + PATTERN)
    answer = f'{{"Version": 1, "AccessKeyId": "{KEY_ID}", "SecretAccessKey": "{SECRET}"}}'
    (tmp_path / "answer").write_text(answer)
    (tmp_path / ".aws" / "credentials").write_text(f"[work]\ncredential_process = cat {tmp_path}/answer\n")
    run("s3://bucket" + PATTERN)
    monkeypatch.setenv("AWS_PROFILE", "none")
    assert "no such profile" in refused("s3://bucket" + PATTERN)


def test_what_a_user_gets_wrong(bucket: Store, shards: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.objects = {"/bucket" + path: body for path, body in shards.items()}
    url = "s3://bucket" + PATTERN
    assert "there is no such object" in refused("s3://bucket/none.tar")
    assert "a pattern in a URL has braces alone" in refused("s3://bucket/data/shard-*.tar")
    for status, code, headers, words in (
        (404, "NoSuchBucket", {}, 'there is no bucket "bucket"'),
        (301, "PermanentRedirect", {"x-amz-bucket-region": "eu-west-1"}, "set AWS_REGION=eu-west-1"),
        (400, "AuthorizationHeaderMalformed", {"x-amz-bucket-region": "eu-west-1"}, "set AWS_REGION=eu-west-1"),
        (403, "AccessDenied", {}, "the key may not read it"),
        (403, "InvalidAccessKeyId", {}, "does not know the key id"),
        (403, "RequestTimeTooSkewed", {}, "set the clock"),
    ):
        bucket.fault = lambda *_, s=status, c=code, h=headers: lambda handler: handler.error(s, c, h) is None
        assert words in refused(url), code
    bucket.fault = lambda *_: None
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "no" + SECRET[2:])
    assert "does not belong to the key id" in refused(url)
    monkeypatch.setenv("AWS_NO_SIGN_REQUEST", "YES")
    bucket.fault = lambda *_: lambda handler: handler.error(403, "AccessDenied") is None
    assert "AWS_NO_SIGN_REQUEST is set" in refused(url)
    monkeypatch.delenv("AWS_NO_SIGN_REQUEST")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    bucket.fault = lambda *_: lambda handler: handler.error(403, "SignatureDoesNotMatch") is None
    assert "no keys were found" in refused(url)


def test_what_lies_below_a_prefix(bucket: Store) -> None:
    bucket.objects = {"/bucket/flat/a.jpg": b"", "/bucket/flat/a.xml": b""}
    assert "no object lies there; is the name right?" in refused("s3://bucket/none")
    assert "found 1 image and 1 XML file; from a store" in refused("s3://bucket/flat")
    bucket.objects["/bucket/flat/c.json"] = b'{"images": []}'
    assert 'format "coco" is read from local files alone' in refused("s3://bucket/flat/c.json")
    assert "write the scheme of a URL in small letters" in refused("S3://bucket/flat")
    # What systems leave behind, at the top and in a class, is no class here either.
    strays = ("@eaDir/0.png", "__MACOSX/cat/0.png", "cat/@eaDir/0.png/thumb.png", ".x/0.png")
    real = {f"/bucket/strays/{name}/0.png": png(number) for number, name in enumerate(("cat", "dog"))}
    bucket.objects = {**real, **{f"/bucket/strays/{name}": png(9) for name in strays}}
    program = """
import test_remote
with test_remote.feed("s3://bucket/strays", batch_size=1) as feeder:
    print(*feeder.classes, sorted(int(label) for batch in feeder for label in batch.labels))
"""
    assert run_command(sys.executable, "-c", program).strip() == "cat dog [0, 1]"


def test_a_bad_endpoint_is_named(bucket: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", bucket.url.replace("http://", "https://"))
    assert "answers without TLS" in (text := refused("s3://bucket" + PATTERN))
    assert "(AWS_ENDPOINT_URL_S3 = https://127.0.0.1" in text
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "127.0.0.1:9000")
    assert "AWS_ENDPOINT_URL_S3: it is a URL" in refused("s3://bucket" + PATTERN)


# ---- faults


def test_secrets_are_refused(web: Store) -> None:
    for url in ("http://user:password@127.0.0.1/x.tar", web.url + "/x.tar?X-Amz-Signature=password"):
        with pytest.raises(forebay.Error) as caught:
            feed(url)
        assert "password" not in str(caught.value).replace("name or password", "")


@pytest.mark.parametrize("kind", PASSING)
def test_a_fault_that_passes(web: Store, kind: str) -> None:
    web.fault = lambda number, path, headers: PASSING[kind] if number % 3 == 0 else None
    check(feed(web.url + PATTERN, workers_io=4))


def test_a_storm_of_503(web: Store, tmp_path: Path) -> None:
    """Readers come back when they were told to, each once."""
    index = str(tmp_path / "train.index")
    check(feed(web.url + PATTERN, dataset_index=index))
    began: list[float] = []

    def storm(number: int, path: str, headers: Any) -> Any:
        began.append(time.monotonic())
        return object_store.busy(503, "2") if began[-1] < began[0] + 1.5 else None

    web.fault = storm
    check(feed(web.url + PATTERN, dataset_index=index, workers_io=8, workers_hedge="off"))
    assert web.statuses[503] <= 8


def test_a_body_that_stops_is_given_up(web: Store) -> None:
    """Long before policy.watchdog_s would end the run: nothing, some bytes and some kB a second, all at one time."""
    drips = [object_store.sent(object_store.drip(*drip)) for drip in ((0.1, 10), (0.5, 1500))]
    hung = iter([object_store.stalled, *drips])
    web.objects = {f"/images/{number:03}.png": png(5 * number) + bytes(200_000) for number in range(COUNT)}
    web.objects["/list.csv"] = "".join(f"images/{number:03}.png,{number % 3}\n" for number in range(COUNT)).encode()
    web.fault = lambda number, path, headers: next(hung, None) if number > 5 else None
    check(feed(web.url + "/list.csv", workers_io=4, workers_hedge="off"))
    assert next(hung, None) is None


@pytest.mark.parametrize("kind", ["stalled", "no such host"])
def test_a_store_that_does_not_come_back_is_named(web: Store, tmp_path: Path, kind: str) -> None:
    index = str(tmp_path / "train.index")
    check(feed(web.url + PATTERN, dataset_index=index))
    fault = {**PASSING, "stalled": object_store.stalled}[kind]
    web.fault = lambda number, path, headers: fault if number > 10 else None
    served: list[int] = []
    web.requests.clear()
    feeder = feed(web.url + PATTERN, dataset_index=index, policy_watchdog_s=2)
    with feeder, pytest.raises(forebay.Error, match=r"for 2\.\d s.*shard-\d\d\.tar"):
        for batch in feeder:
            served += [int(i) for i in batch.ids]
    assert len(set(served)) == len(served) < COUNT


def test_random_faults(web: Store) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    web.fault = object_store.at_random(chance, 0.2)
    check(feed(web.url + PATTERN, workers_io=4, epochs=3), epochs=3)


def test_a_server_without_ranges_is_coped_with_or_refused(web: Store) -> None:
    web.fault = lambda *_: object_store.whole
    check(feed(web.url + PATTERN))
    member = tarfile.TarInfo("a.bin")
    member.size = 18 << 20
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(member, io.BytesIO(bytes(member.size)))
        for number in range(2):
            small = tarfile.TarInfo(f"{number}.png")
            small.size = len(png(number))
            archive.addfile(small, io.BytesIO(png(number)))
    web.objects["/large.tar"] = file.getvalue()
    with pytest.raises(forebay.Error, match="does not serve ranges"):
        feed(web.url + "/large.tar")


def test_compressed_on_its_way(web: Store) -> None:
    web.fault = lambda *_: object_store.compressed
    with pytest.raises(forebay.Error, match="Content-Encoding: gzip"):
        feed(web.url + PATTERN)


def test_a_circle_of_redirects(web: Store) -> None:
    web.fault = lambda *_: lambda handler: object_store.redirect(f"{web.url}{handler.path}")(handler)
    with pytest.raises(forebay.Error, match="redirects in a circle"):
        feed(web.url + PATTERN)


def test_an_object_that_changes_is_named(web: Store, tmp_path: Path) -> None:
    index = str(tmp_path / "train.index")
    check(feed(web.url + PATTERN, dataset_index=index))
    path = "/data/shard-01.tar"
    web.objects[path] = zlib.compress(web.objects[path]) + bytes(len(web.objects[path]))
    with feed(web.url + PATTERN, dataset_index=index) as feeder:
        try:
            for batch in feeder:
                assert not any(COUNT // SHARDS <= i < 2 * COUNT // SHARDS for i in batch.ids)
        except forebay.Error as error:
            assert "shard-01.tar" in str(error) and "index the data again" in str(error)
        else:
            assert feeder.summary()["bad_samples"] == COUNT // SHARDS


def test_a_key_that_is_taken_away_ends_the_run(web: Store, tmp_path: Path) -> None:
    index = str(tmp_path / "train.index")
    check(feed(web.url + PATTERN, dataset_index=index))
    served: list[int] = []
    web.requests.clear()
    web.fault = lambda number, path, headers: object_store.busy(403) if number > 10 else None
    feeder = feed(web.url + PATTERN, dataset_index=index)
    with feeder, pytest.raises(forebay.Error, match=r"shard-\d\d\.tar: the store answers 403"):
        for batch in feeder:
            served += [int(i) for i in batch.ids]
    assert len(set(served)) == len(served) < COUNT

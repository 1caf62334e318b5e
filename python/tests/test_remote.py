"""Data behind URLs: every sample once, with its own pixels, whatever the store does meanwhile."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import struct
import sys
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forebay
import object_store
import pytest
from conftest import COUNT, SMALL, png, run_command
from object_store import KEY_ID, REGION, SECRET, Store, running

SHARDS = 4


def tar_of(numbers: range) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number in numbers:
            for ending, data in (
                ("png", png(5 * number)),
                ("cls", str(number % 3).encode()),
                ("bin", bytes(20_000)),
            ):
                member = tarfile.TarInfo(f"{number:03}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


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


@pytest.fixture(scope="module")
def shards() -> dict[str, bytes]:
    each = COUNT // SHARDS
    return {f"/data/shard-{i:02}.tar": tar_of(range(i * each, (i + 1) * each)) for i in range(SHARDS)}


@pytest.fixture
def web(shards: dict[str, bytes]) -> Iterator[Store]:
    with running(dict(shards)) as store:
        yield store


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
    check(feed(web.url + PATTERN, dataset_index=str(index)))
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
    run_command(
        os.path.join(os.path.dirname(forebay.__file__), "bin", "forebay"), "pack", str(folder), str(tmp_path / "packed")
    )
    web.objects = {f"/packed/{file.name}": file.read_bytes() for file in (tmp_path / "packed").glob("*.fbpack")}
    names = sorted(web.objects)
    assert names
    numbers = ",".join(name.removeprefix("/packed/") for name in names)
    check(feed(f"{web.url}/packed/{{{numbers}}}"), classes=0)


def test_a_list_of_class_folders_is_no_web_server(web: Store) -> None:
    with pytest.raises(forebay.Error, match="a web server lists no files"):
        feed(web.url + "/data/")


# ---- S3


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    with running({}, is_s3=True) as store:
        for name in list(os.environ):
            if name.startswith("AWS_"):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_REGION", REGION)
        yield store


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
    assert "no keys were found" in refused(url)


# ---- faults


def test_secrets_are_refused(web: Store) -> None:
    for url in ("http://user:password@127.0.0.1/x.tar", web.url + "/x.tar?X-Amz-Signature=password"):
        with pytest.raises(forebay.Error) as caught:
            feed(url)
        assert "password" not in str(caught.value).replace("name or password", "")


@pytest.mark.parametrize("kind", ["busy", "later", "reset", "short", "wrong range", "slow", "redirect"])
def test_a_fault_that_passes(web: Store, kind: str) -> None:
    faults = {
        "busy": object_store.busy(),
        "later": object_store.busy(429, "1"),
        "reset": object_store.reset,
        "short": object_store.short,
        "wrong range": object_store.wrong_range,
        "slow": object_store.slow(0.05),
        "redirect": lambda handler: object_store.redirect(f"{web.url}{handler.path}")(handler),
    }
    every = 9 if kind == "later" else 3
    web.fault = lambda number, path, headers: faults[kind] if number % every == 0 else None
    check(feed(web.url + PATTERN, workers_io=4))


def test_random_faults(web: Store) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    faults = [
        object_store.busy(),
        object_store.busy(500),
        object_store.busy(502),
        object_store.reset,
        object_store.short,
        object_store.wrong_range,
        object_store.whole,
        object_store.slow(0.02),
    ]
    web.fault = lambda number, path, headers: chance.choice(faults) if chance.random() < 0.2 else None
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


# ---- what servers leave out or say wrongly


@pytest.mark.parametrize("token", ["", "<NextContinuationToken>7</NextContinuationToken>"])
def test_a_list_that_does_not_go_on_is_no_short_one(bucket: Store, token: str) -> None:
    text = f"<ListBucketResult><IsTruncated>true</IsTruncated>{token}</ListBucketResult>".encode()
    bucket.fault = lambda number, path, headers: (
        (lambda handler: handler.answer(200, text) is None) if path == "/bucket" else None
    )
    assert 'the list of the bucket "bucket" has more objects' in refused("s3://bucket/train")


def nameless(handler: object_store.Handler) -> bool:
    """Without an ETag."""
    body = handler.server.objects[handler.path]
    first, last = (int(number) for number in handler.headers["Range"].removeprefix("bytes=").split("-"))
    piece = body[first : last + 1]
    handler.answer(206, piece, {"Content-Range": f"bytes {first}-{first + len(piece) - 1}/{len(body)}"})
    return True


def test_a_server_without_versions_is_refused(web: Store, tmp_path: Path) -> None:
    index = str(tmp_path / "train.index")
    check(feed(web.url + PATTERN, dataset_index=index))
    web.fault = lambda *_: nameless
    with pytest.raises(forebay.Error, match="names no version"):
        feed(web.url + PATTERN)
    with feed(web.url + PATTERN, dataset_index=index) as feeder, pytest.raises(forebay.Error, match="names no version"):
        list(feeder)


def images(web: Store) -> str:
    web.objects = {f"/images/{number:03}.png": png(5 * number) for number in range(COUNT)}
    web.objects["/list.csv"] = "".join(f"images/{number:03}.png,{number % 3}\n" for number in range(COUNT)).encode()
    return web.url + "/list.csv"


def test_a_part_is_not_the_whole(web: Store) -> None:
    def part(handler: object_store.Handler) -> bool:
        if handler.headers.get("Range"):
            return False
        handler.answer(206, b"part", {"ETag": '"x"', "Content-Range": "bytes 0-3/9"})
        return True

    web.fault = lambda number, path, headers: part if number % 3 == 0 else None
    check(feed(images(web)))


def test_a_body_without_an_end_is_refused(web: Store) -> None:
    def endless(handler: object_store.Handler) -> bool:
        if handler.headers.get("Range"):
            return False
        handler.answer(200, handler.server.objects[handler.path], {"ETag": '"x"', "Content-Length": ""}, cut=9)
        return True

    web.fault = lambda *_: endless
    with pytest.raises(forebay.Error, match="neither how long it is"), feed(images(web)) as feeder:
        list(feeder)


def test_a_compressed_shard_that_changes(web: Store, tmp_path: Path) -> None:
    web.objects = {path + ".gz": gzip.compress(body) for path, body in web.objects.items()}
    index, url = str(tmp_path / "train.index"), web.url + "/data/shard-{00..03}.tar.gz"
    check(feed(url, dataset_index=index))
    check(feed(url, dataset_index=index))
    web.objects["/data/shard-01.tar.gz"] = gzip.compress(tar_of(range(30, 40)))
    with pytest.raises((forebay.Error, AssertionError), match="shard-01|index|Counter"):
        check(feed(url, dataset_index=index))


# ---- secrets go to their owner alone


def test_a_redirect_to_another_host_gets_no_keys(bucket: Store, shards: dict[str, bytes]) -> None:
    authorized: list[str | None] = []

    def note(number: int, path: str, headers: Any) -> None:
        authorized.append(headers.get("Authorization"))

    with running({"/bucket" + path: body for path, body in shards.items()}) as other:
        other.fault = note
        bucket.fault = lambda *_: lambda handler: object_store.redirect(other.url + handler.path)(handler)
        run("s3://bucket" + PATTERN)
    assert authorized
    assert set(authorized) == {None}


def test_names_that_lead_elsewhere_are_refused(bucket: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("s3://localhost:8902#/x.tar", "s3://a?b/x.tar", "s3://a%2fb/x.tar"):
        assert "the name of a bucket has letters" in refused(url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", bucket.url + "/path")
    assert "behind the host" in refused("s3://bucket/x.tar")
    assert not bucket.requests


def test_a_query_goes_over_https(web: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_URL_QUERY", "?sig=secret")
    check(feed(web.url + PATTERN))
    assert web.queries == {"sig=secret"}
    web.requests.clear()
    with pytest.raises(forebay.Error, match="over https:// alone") as caught:
        feed(web.url.replace("127.0.0.1", "127.0.0.2") + PATTERN)
    assert "secret," not in str(caught.value)
    assert not web.requests


def test_secrets_in_other_places(web: Store, tmp_path: Path) -> None:
    index = str(tmp_path / "train.index")
    check(feed(web.url + PATTERN, dataset_index=index))
    with pytest.raises(forebay.Error, match="FOREBAY_URL_QUERY") as caught:
        feed(web.url + "/x.tar?sig=password", dataset_index=index)
    assert "password" not in str(caught.value)
    web.objects = {"/list.csv": b"a.png?sig=password,0\n"}
    with pytest.raises(forebay.Error, match="FOREBAY_URL_QUERY") as caught:
        feed(web.url + "/list.csv")
    assert "password" not in str(caught.value)


def test_a_proxy_that_refuses_is_named(web: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    name = web.url.removeprefix("http://")
    monkeypatch.setenv("https_proxy", f"http://user:password@{name}")
    with pytest.raises(forebay.Error, match=f"the proxy {name} .* 407") as caught:
        feed("https://data.example.org/x.tar")
    assert "password" not in str(caught.value)


# ---- keys that services give


def keys(expires: str) -> bytes:
    return json.dumps({"AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "Token": "t", "Expiration": expires}).encode()


ROLE = "/latest/meta-data/iam/security-credentials/"
FAR = "9999-12-31T23:59:59Z"


@pytest.fixture
def machine(bucket: Store, shards: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Its service of metadata, behind a proxy for everything else."""
    bucket.objects = {"/bucket" + path: body for path, body in shards.items()}
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.delenv(name)
    with running({"/latest/api/token": b"token", ROLE: b"role", ROLE + "role": keys(FAR)}) as service:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url)
        yield service


def test_a_busy_service_of_keys_is_asked_again(bucket: Store, machine: Store) -> None:
    for path in (ROLE, ROLE + "role"):
        machine.requests.clear()
        failed: list[str] = []

        def once(number: int, asked: str, headers: Any, path: str = path, failed: list[str] = failed) -> Any:
            if asked != path or failed:
                return None
            failed.append(asked)
            return object_store.busy()

        machine.fault = once
        run("s3://bucket" + PATTERN)
        assert failed == [path]
        assert [asked for asked, _ in machine.requests].count(ROLE + "role") == 1 + (path != ROLE)


def test_keys_are_kept_while_their_service_fails(bucket: Store, machine: Store) -> None:
    """A store that says that they have expired, once, and a service that then says nothing."""
    said: list[int] = []

    def expired(number: int, path: str, headers: Any) -> Any:
        assert headers.get("Authorization")
        if number != 6:
            return None
        said.append(number)
        machine.fault = lambda *_: lambda handler: handler.error(404, "none") is None
        return lambda handler: handler.error(400, "ExpiredToken") is None

    bucket.fault = expired
    run("s3://bucket" + PATTERN)
    assert said


def test_keys_of_a_container_past_a_proxy(bucket: Store, machine: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.objects["/keys"] = keys(FAR)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", machine.url + "/keys")
    monkeypatch.setenv("http_proxy", bucket.url)  # takes what is for the bucket, and has no keys
    run("s3://bucket" + PATTERN)
    assert [path for path, _ in machine.requests] == ["/keys"]


def test_a_local_list_of_urls_is_hedged(web: Store, tmp_path: Path) -> None:
    images(web)
    lines = "".join(f"{web.url}/images/{number:03}.png,{number % 3}\n" for number in range(COUNT))
    (tmp_path / "list.csv").write_text(lines)
    late: list[str] = []

    def hang(number: int, path: str, headers: Any) -> Any:
        if number != 30:
            return None
        late.append(path)
        return object_store.slow(3)

    web.fault = hang
    check(feed(str(tmp_path / "list.csv"), workers_io=2))
    assert [path for path, _ in web.requests].count(late[0]) == 2

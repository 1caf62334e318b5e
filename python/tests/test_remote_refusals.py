"""Servers, stores, proxies and services of keys that are wrong, and where secrets go."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forebay
import object_store
import pytest
from conftest import COUNT, images, png, run_command, tar_of
from object_store import KEY_ID, SECRET, Store, running
from test_remote import COMMAND, PATTERN, SMALL, check, feed, refused, run

# ---- what would be written to a store


def test_only_files_are_written(web: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for keys in ({"telemetry_dir": "s3://b/run"}, {"cache_dir": "gs://b/c"}, {"resume": "s3://b/x.state"}):
        with pytest.raises(forebay.Error, match="it is a URL, and only files are written"):
            feed(web.url + PATTERN, **keys)
    feeder = forebay.Feeder(dataset=web.url + PATTERN, **SMALL)
    with feeder, pytest.raises(forebay.Error, match="only files are written"):
        feeder.save("s3://b/x.state")
    assert not list(tmp_path.iterdir())


# ---- what servers leave out or say wrongly


@pytest.mark.parametrize("tokens", [[""], ["7"], ["7", "14"]], ids=["none", "one", "two in turn"])
def test_a_list_that_does_not_go_on_is_no_short_one(bucket: Store, tokens: list[str]) -> None:
    turns = itertools.cycle(tokens)

    def page(handler: object_store.Handler) -> bool:
        token = f"<NextContinuationToken>{next(turns)}</NextContinuationToken>"
        handler.answer(200, f"<ListBucketResult><IsTruncated>true</IsTruncated>{token}</ListBucketResult>".encode())
        return True

    bucket.fault = lambda *_: page
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
    with pytest.raises(forebay.Error, match="names no version"):
        check(feed(web.url + PATTERN, dataset_index=index))


def list_of_images(web: Store) -> str:
    web.objects = images()
    return web.url + "/list.csv"


def test_a_list_names_files_with_percent_signs(web: Store) -> None:
    url = list_of_images(web)
    web.objects["/images/1%00 %z%.png"] = web.objects.pop("/images/001.png")
    web.objects["/list.csv"] = web.objects["/list.csv"].replace(b"001.png", b"1%2500 %z%.png")
    check(feed(url))
    web.objects["/list.csv"] = web.objects["/list.csv"].replace(b"1%2500 %z%.png", b"a%20b.png")
    image = web.objects.pop("/images/1%00 %z%.png")
    for name in ("/images/a b.png", "/images/a%20b.png"):
        web.objects[name] = image
        check(feed(url))
        del web.objects[name]
    web.objects |= {"/images/a b.png": image, "/images/a%20b.png": png(7)}
    assert 'csv:2: "images/a%20b.png" is a file of that very name, or one whose name is encoded' in refused(url)
    web.fault = lambda _, path, __: object_store.busy(403) if "%" in path else None  # as buckets say what they lack
    check(feed(url))
    web.objects["/list.csv"] = web.objects["/list.csv"].replace(b"images/a", web.url.encode() + b"/images/a")
    check(feed(url))


def test_files_of_a_program_may_be_urls(web: Store, tmp_path: Path) -> None:
    web.objects = images()
    paths = [web.url + f"/images/{number:03}.png" for number in range(COUNT)]
    (tmp_path / "0.png").write_bytes(png(0))
    labels, masks = [number % 3 for number in range(COUNT)], {"mask": {"kind": "mask", "values": paths}}
    files = forebay.Files([tmp_path / "0.png", *paths[1:]], labels, fields=masks)
    check(feed(files))
    with feed(files, on_bad="fail") as feeder:
        for batch in feeder:
            assert (batch["mask"][:, 0, 0] == 5 * batch.ids).all()


def test_what_is_stored_compressed_is_read(web: Store) -> None:
    """A server that says so of each .gz, as Apache does by AddEncoding."""

    def labelled(handler: object_store.Handler) -> bool:
        body = object_store.body_of(handler)
        first, last = (int(number) for number in handler.headers["Range"].removeprefix("bytes=").split("-"))
        piece = body[first : last + 1]
        said = {"ETag": handler.server.etag(body), "Content-Encoding": "x-gzip"}
        handler.answer(206, piece, {**said, "Content-Range": f"bytes {first}-{first + len(piece) - 1}/{len(body)}"})
        return True

    web.objects = {"/data.tar.gz": gzip.compress(tar_of(range(COUNT)))}
    web.fault = lambda *_: labelled
    check(feed(web.url + "/data.tar.gz"))


def test_a_part_is_not_the_whole(web: Store) -> None:
    def part(handler: object_store.Handler) -> bool:
        if handler.headers.get("Range"):
            return False
        handler.answer(206, b"part", {"ETag": '"x"', "Content-Range": "bytes 0-3/9"})
        return True

    web.fault = lambda number, path, headers: part if number % 3 == 0 else None
    check(feed(list_of_images(web)))


def test_a_body_without_an_end_is_refused(web: Store) -> None:
    def endless(handler: object_store.Handler) -> bool:
        if handler.headers.get("Range"):
            return False
        handler.answer(
            200, handler.server.objects[handler.path], {"ETag": '"x"', "Content-Length": ""}, object_store.begin
        )
        return True

    web.fault = lambda *_: endless
    with pytest.raises(forebay.Error, match="neither how long it is"), feed(list_of_images(web)) as feeder:
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
    assert "follows the host" in refused("s3://bucket/x.tar")
    assert not bucket.requests


def test_a_query_goes_over_https(web: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_URL_QUERY", "?sig=secret")
    check(feed(web.url + PATTERN))
    assert web.queries == {"sig=secret"}
    web.requests.clear()
    with pytest.raises(forebay.Error, match="over https:// alone") as caught:
        feed(web.url.replace("127.0.0.1", "127.0.0.2") + PATTERN)
    assert "sig=" not in str(caught.value)
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
    monkeypatch.setenv("http_proxy", f"http://user:password@{name}")
    web.fault = lambda *_: object_store.busy(407)
    with pytest.raises(forebay.Error, match=r"the proxy \(http_proxy\) answers 407.*no_proxy") as caught:
        feed("http://data.example.org/x.tar")
    assert "user:" not in str(caught.value)
    web.fault = lambda *_: object_store.busy(403)
    with pytest.raises(
        forebay.Error, match=rf"the store answers 403 .*, or the proxy {name} does .*no_proxy"
    ) as caught:
        feed("http://data.example.org/x.tar")
    assert "user:" not in str(caught.value)


# ---- the same data elsewhere


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_of_every_form(web: Store, status: int) -> None:
    objects = {path.replace("/data/", "/moved/here/"): body for path, body in web.objects.items()}
    forms = itertools.cycle(
        ["../moved/./x/../here/{}", "//{host}/moved/here/{}", "/moved/here/{}", "{url}/moved/here/{}"]
    )
    host = web.url.removeprefix("http://")

    def moved(number: int, path: str, headers: Any) -> object_store.Fault | None:
        to = next(forms).format(path.rpartition("/")[2], host=host, url=web.url)
        return object_store.redirect(to, status) if path.startswith("/data/") else None

    web.objects, web.fault = objects, moved
    check(feed(web.url + PATTERN))
    assert web.statuses[status] > 4


def test_a_copy_elsewhere_is_the_same_dataset(web: Store, shards: dict[str, bytes], tmp_path: Path) -> None:
    """Bytes decide, whatever their version is called and whether there is a store at all."""
    for path, body in shards.items():
        (tmp_path / path.rpartition("/")[2]).write_bytes(body)
    state, local = str(tmp_path / "job.state"), str(tmp_path / PATTERN.rpartition("/")[2])
    fingerprints, served = set(), Counter[int]()
    for place, etag in ((web.url + PATTERN, "one"), (web.url + PATTERN, "two"), (local, "")):
        web.etag = lambda body, name=etag: f'"{name}-{len(body)}"'  # type: ignore[method-assign]
        fingerprints.add(re.search(r"fingerprint +(\w+)", run_command(COMMAND, "index", place))[1])  # type: ignore[index]
        with feed(place, resume=state) as feeder:
            for batch in itertools.islice(feeder, 2):
                served.update(int(i) for i in batch.ids)
            feeder.save(state)
    assert len(fingerprints) == 1 and max(served.values()) == 1
    web.objects["/data/shard-01.tar"] = shards["/data/shard-02.tar"]
    with pytest.raises(forebay.Error, match="another dataset"):
        feed(web.url + PATTERN, resume=state)


# ---- keys that services give


def keys(expires: str, token: str = "t") -> bytes:
    said = {"AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "Token": token, "Expiration": expires}
    return json.dumps(said).encode()


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
        if number != 6:
            return None
        said.append(number)
        machine.fault = lambda *_: lambda handler: handler.error(404, "none") is None
        return lambda handler: handler.error(400, "ExpiredToken") is None

    bucket.fault = expired
    run("s3://bucket" + PATTERN)
    assert said


@pytest.mark.parametrize("how", ["busy", "refuses", "reset", "says nothing", "old keys"])
def test_keys_expire_while_their_service_fails(
    bucket: Store, machine: Store, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """In mid-run the store takes new keys alone, which the service gives when it is asked for the sixth time."""
    fails: dict[str, Any] = {
        "busy": object_store.busy(),
        "refuses": object_store.busy(403),
        "reset": object_store.reset,
        "says nothing": lambda handler: handler.answer(200, b"{}") is None,
        "old keys": None,
    }
    machine.objects["/keys"] = keys(FAR)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", machine.url + "/keys")
    asked: list[int] = []

    def service(number: int, path: str, headers: Any) -> Any:
        asked.append(number)
        if len(asked) > 6:
            machine.objects["/keys"] = keys(FAR, "new")
        return fails[how] if 1 < len(asked) <= 6 else None

    def expired(number: int, path: str, headers: Any) -> Any:
        has_old = number > 20 and headers.get("x-amz-security-token") == "t"
        return (lambda handler: handler.error(400, "ExpiredToken") is None) if has_old else None

    machine.fault, bucket.fault = service, expired
    run("s3://bucket" + PATTERN)
    assert len(asked) == 7


def test_keys_of_a_web_identity(bucket: Store, machine: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its token is in no URL, because those are written to logs."""
    (tmp_path / "token").write_text("a.b+c\n")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", machine.url)
    said = (
        f"<AccessKeyId>{KEY_ID}</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey><SessionToken>t</SessionToken>"
    )
    machine.objects["AssumeRoleWithWebIdentity"] = f"<Credentials>{said}</Credentials>".encode()
    run("s3://bucket" + PATTERN)
    [(path, form)] = machine.forms
    assert path == "/" and form["WebIdentityToken"] == "a.b+c" and form["RoleArn"] == "arn:aws:iam::1:role/r"


def test_keys_that_had_expired_at_the_start_are_refused(
    bucket: Store, machine: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    bucket.fault = lambda *_: lambda handler: handler.error(400, "ExpiredToken") is None
    assert "the keys have expired and nothing gives new ones" in refused("s3://bucket" + PATTERN)
    assert len(bucket.requests) < 20


def test_keys_of_a_container_past_a_proxy(bucket: Store, machine: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.objects["/keys"] = keys(FAR)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", machine.url + "/keys")
    monkeypatch.setenv("http_proxy", bucket.url)  # takes what is for the bucket, and has no keys
    run("s3://bucket" + PATTERN)
    assert [path for path, _ in machine.requests] == ["/keys"]


def test_a_local_list_of_urls_is_hedged(web: Store, tmp_path: Path) -> None:
    web.objects = images()
    lines = "".join(f"{web.url}/images/{number:03}.png,{number % 3}\n" for number in range(COUNT))
    (tmp_path / "list.csv").write_text(lines)
    late: list[str] = []

    def hang(number: int, path: str, headers: Any) -> Any:
        if number != 140:  # more are read than a tail needs to be known
            return None
        late.append(path)
        return object_store.slow(3)

    web.fault = hang
    check(feed(str(tmp_path / "list.csv"), workers_io=2, epochs=4), epochs=4)
    assert [path for path, _ in web.requests].count(late[0]) == 4 + 1

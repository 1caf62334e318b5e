"""Data behind https:// with certificates of one's own: what is trusted, what is refused and why, proxies."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import forebay
import object_store
import pytest
from object_store import Store, running
from test_remote import PATTERN, check, feed, refused, run


class Authority:
    """Signs certificates. Its own is in `file`."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("there is no openssl")
        self.folder, self.file = folder, folder / "authority.pem"
        self.openssl("req", "-x509", "-days", "9", "-subj", "/CN=authority", "-out", str(self.file), key="authority")

    def openssl(self, *words: str, key: str = "") -> None:
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{self.folder}/{key}.key"]
        subprocess.run(["openssl", *words, *(new if key else [])], check=True, capture_output=True, timeout=60)

    def certified(self, name: str = "localhost", address: str = "127.0.0.1", days: str = "9") -> ssl.SSLContext:
        """A server of this name and address."""
        base = self.folder / f"{name}{days}"
        self.openssl("req", "-subj", f"/CN={name}", "-out", f"{base}.csr", key=base.name)
        Path(f"{base}.names").write_text(f"subjectAltName=DNS:{name},IP:{address}")
        words = ["x509", "-req", "-in", f"{base}.csr", "-CA", str(self.file), "-CAkey", f"{self.folder}/authority.key"]
        words += ["-CAcreateserial", "-extfile", f"{base}.names", "-days", days, "-out", f"{base}.pem"]
        self.openssl(*words)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{base}.pem", f"{base}.key")
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def secure(authority: Authority, shards: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.file))
    with running(dict(shards), tls=authority.certified()) as store:
        yield store


def error_of(url: str) -> str:
    with pytest.raises(forebay.Error) as caught:
        feed(url + PATTERN).close()
    text = str(caught.value)
    assert "\n" not in text
    assert url in text
    return text


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_an_authority_of_ones_own(
    secure: Store, authority: Authority, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE")
    assert "not trusted" in error_of(secure.url)
    assert not secure.requests
    monkeypatch.setenv(variable, str(authority.file))
    check(feed(secure.url + PATTERN, workers_io=4))
    check(feed(secure.url.replace("127.0.0.1", "localhost") + PATTERN))


def test_what_is_wrong_with_a_certificate(
    secure: Store, authority: Authority, shards: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(shards, tls=authority.certified(days="-1")) as expired:
        assert "renew it on the server, or set this machine's clock" in error_of(expired.url)
    with running(shards, tls=authority.certified("data.example.org", "127.0.0.9")) as other:
        assert "ask for it by a name that its certificate has" in error_of(other.url)
    monkeypatch.delenv("AWS_CA_BUNDLE")
    assert "in AWS_CA_BUNDLE or SSL_CERT_FILE" in error_of(secure.url)
    monkeypatch.setenv("CURL_CA_BUNDLE", "/nowhere/authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    assert "now CURL_CA_BUNDLE = /nowhere/authority.pem" in error_of(secure.url)


def test_a_server_without_tls(secure: Store, web: Store) -> None:
    assert "answers without TLS: ask for it with http://" in error_of(web.url.replace("http://", "https://"))


def test_a_store_by_tls(
    bucket: Store, secure: Store, shards: dict[str, bytes], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", secure.url)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.file))
    secure.is_s3 = True
    secure.objects = {"/bucket" + path: body for path, body in shards.items()}
    run("s3://bucket/data")
    monkeypatch.delenv("AWS_CA_BUNDLE")
    assert "not trusted" in refused("s3://bucket/data")


@pytest.mark.parametrize("kind", ["reset", "short", "torn", "long"])
def test_a_connection_that_ends_in_the_middle(secure: Store, kind: str) -> None:
    fault: object_store.Fault = getattr(object_store, kind)
    secure.fault = lambda number, path, headers: fault if number % 3 == 0 else None
    check(feed(secure.url + PATTERN, workers_io=4))


def test_redirects_between_http_and_https(secure: Store, web: Store) -> None:
    web.fault = lambda *_: lambda handler: object_store.redirect(secure.url + handler.path)(handler)
    check(feed(web.url + PATTERN))
    web.fault = lambda *_: None
    web.requests.clear()
    secure.fault = lambda *_: lambda handler: object_store.redirect(web.url + handler.path)(handler)
    assert "a redirect from https:// to http://, which is not followed" in error_of(secure.url)
    assert not web.requests


def test_a_proxy(secure: Store, web: Store, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    web.lets_through = True
    monkeypatch.setenv("https_proxy", web.url)
    check(feed(secure.url + PATTERN, workers_io=2))
    assert {path for path, _ in web.requests} == {secure.url.removeprefix("https://")}
    with running({}, tls=authority.certified()) as proxy:
        proxy.lets_through = True
        monkeypatch.setenv("https_proxy", proxy.url)
        check(feed(secure.url + PATTERN))
        assert proxy.requests
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    web.requests.clear()
    check(feed(secure.url + PATTERN))
    assert not web.requests

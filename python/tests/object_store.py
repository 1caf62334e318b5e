"""A store on the loopback: a web server, or S3 with signatures. It serves what it is given, and fails as it is told."""

from __future__ import annotations

import hashlib
import hmac
import os
import random
import select
import socket
import ssl
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

KEY_ID, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1"


def digest(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


@lru_cache(256)
def etag_of(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Store

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None, send: Send | None = None
    ) -> None:
        """`send` writes the body as it likes; the connection ends then."""
        self.server.statuses[status] += 1
        self.send_response(status)
        headers = {"Content-Length": str(len(body)), **(headers or {})}
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if send is None:
            self.wfile.write(body)
        else:
            self.close_connection = True
            send(self, body)

    def error(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        self.answer(status, f"<Error><Code>{code}</Code></Error>".encode(), headers)

    def is_signed_well(self) -> bool:
        """Signature Version 4, computed from what arrived."""
        words = self.headers.get("Authorization", "").replace(",", " ").split()
        if len(words) != 4:
            return False
        said = dict(word.split("=", 1) for word in words[1:])
        _, day, region, service, _ = said["Credential"].split("/")
        parts = urlsplit(self.path)
        query = "&".join(
            f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}"
            for k, v in sorted(parse_qsl(parts.query, keep_blank_values=True))
        )
        names = said["SignedHeaders"].split(";")
        lines = "".join(f"{name}:{self.headers[name].strip()}\n" for name in names)
        request = "\n".join(
            ["GET", parts.path, query, lines, said["SignedHeaders"], self.headers["x-amz-content-sha256"]]
        )
        text = "\n".join(
            [
                "AWS4-HMAC-SHA256",
                self.headers["x-amz-date"],
                f"{day}/{region}/{service}/aws4_request",
                hashlib.sha256(request.encode()).hexdigest(),
            ]
        )
        key = digest(digest(digest(digest(("AWS4" + SECRET).encode(), day), region), service), "aws4_request")
        return hmac.compare_digest(digest(key, text).hex(), said["Signature"])

    def list(self, bucket: str, query: dict[str, str]) -> None:
        """ListObjectsV2, a page of a few keys."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        found: list[tuple[str, bool]] = []
        for path in sorted(self.server.objects):
            key = path[len(bucket) + 2 :]
            if not path.startswith(f"/{bucket}/") or not key.startswith(prefix):
                continue
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            entry = (key, False) if end < 0 else (key[: end + 1], True)
            if not found or found[-1] != entry:
                found.append(entry)
        start = int(query.get("continuation-token", 0))
        page, more = found[start : start + 7], len(found) > start + 7
        body = "".join(
            f"<CommonPrefixes><Prefix>{quote(name)}</Prefix></CommonPrefixes>"
            if is_folder
            else f"<Contents><Key>{quote(name)}</Key></Contents>"
            for name, is_folder in page
        )
        token = f"<NextContinuationToken>{start + 7}</NextContinuationToken>" if more else ""
        text = (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>{token}{body}"
            f"<Name>{escape(bucket)}</Name></ListBucketResult>"
        )
        self.answer(200, text.encode())

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        with self.server.lock:
            self.server.requests.append((path, self.headers.get("Range")))
            self.server.queries.add(parts.query)
            number = len(self.server.requests)
        fault = self.server.fault(number, path, self.headers)
        if fault is not None and fault(self):
            return
        if self.server.is_s3 and not self.is_signed_well():
            return self.error(403, "SignatureDoesNotMatch")
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        if query.get("list-type") == "2":
            return self.list(path.strip("/"), query)
        body = self.server.objects.get(path)
        if body is None:
            return self.error(404, "NoSuchKey")
        self.serve(body)

    def serve(self, body: bytes, ignores_range: bool = False, send: Send | None = None, more: bytes = b"") -> None:
        etag = self.server.etag(body)
        headers = {"ETag": etag}
        if self.headers.get("If-Match", etag) != etag:
            return self.error(412, "PreconditionFailed")
        if self.headers.get("If-None-Match") == etag:
            return self.answer(304, b"", headers)
        wanted = self.headers.get("Range")
        if wanted is None or ignores_range:
            return self.answer(200, body + more, headers, send)
        first, last = (int(number) for number in wanted.removeprefix("bytes=").split("-"))
        if first >= len(body):
            return self.answer(416, b"", {"Content-Range": f"bytes */{len(body)}"})
        piece = body[first : last + 1]
        headers["Content-Range"] = f"bytes {first}-{first + len(piece) - 1}/{len(body)}"
        self.answer(206, piece + more, headers, send)

    do_PUT = do_GET

    def do_POST(self) -> None:
        """The answer to a form."""
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with self.server.lock:
            self.server.forms.append((self.path, dict(parse_qsl(form))))
        body = self.server.objects.get(dict(parse_qsl(form)).get("Action", ""))
        return self.error(404, "none") if body is None else self.answer(200, body)

    def do_CONNECT(self) -> None:
        """Bytes both ways until a side ends, if it is a proxy that lets its clients through."""
        if not self.server.lets_through:
            return self.error(407, "ProxyAuthenticationRequired")
        host, port = self.path.split(":")
        with self.server.lock:
            self.server.requests.append((self.path, None))
        with socket.create_connection((host, int(port))) as far:
            self.send_response(200)
            self.end_headers()
            ways = {self.connection: far, far: self.connection}
            while piece := (side := select.select(list(ways), [], [])[0][0]).recv(1 << 16):
                ways[side].sendall(piece)
        self.close_connection = True


Fault = Callable[[Handler], bool]
Send = Callable[[Handler, bytes], None]


class Store(ThreadingHTTPServer):
    """Objects by path. `fault` says for each request what happens instead: it returns whether it has answered."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, objects: Mapping[str, bytes], is_s3: bool = False, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        if tls is not None:  # hands are shaken by the thread of the connection
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.objects: Any = objects
        self.is_s3 = is_s3
        self.lock = threading.Lock()
        self.requests: list[tuple[str, str | None]] = []
        self.queries: set[str] = set()
        self.forms: list[tuple[str, dict[str, str]]] = []
        self.statuses: Counter[int] = Counter()
        self.fault: Callable[[int, str, Any], Fault | None] = lambda number, path, headers: None
        self.lets_through = False
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_address[1]}"

    def etag(self, body: bytes) -> str:
        return etag_of(body)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients go away


@contextmanager
def running(objects: Mapping[str, bytes], is_s3: bool = False, tls: ssl.SSLContext | None = None) -> Iterator[Store]:
    store = Store(objects, is_s3, tls)
    thread = threading.Thread(target=store.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        store.shutdown()
        store.server_close()
        thread.join(10)


def busy(status: int = 503, retry_after: str | None = None) -> Fault:
    def fault(handler: Handler) -> bool:
        handler.error(status, "Unwell", {"Retry-After": retry_after} if retry_after else None)
        return True

    return fault


def reset(handler: Handler) -> bool:
    """Ends the connection at once, and its peer is told so (RST)."""
    handler.close_connection = True
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(handler.connection.detach())
    return True


def body_of(handler: Handler) -> bytes:
    return handler.server.objects.get(unquote(urlsplit(handler.path).path), b"no such object")


def sent(send: Send | None, more: bytes = b"") -> Fault:
    """The right head, and a body that is written by `send`."""

    def fault(handler: Handler) -> bool:
        handler.serve(body_of(handler), send=send, more=more)
        return True

    return fault


def begin(handler: Handler, body: bytes) -> None:
    handler.wfile.write(body[: len(body) // 2])


def tear(handler: Handler, body: bytes) -> None:
    begin(handler, body)
    reset(handler)


def stall(handler: Handler, body: bytes) -> None:
    """Until its client goes."""
    begin(handler, body)
    select.select([handler.connection], [], [], 100)


def drip(pause_s: float, bytes_each: int) -> Send:
    def send(handler: Handler, body: bytes) -> None:
        while body and not select.select([handler.connection], [], [], pause_s)[0]:
            handler.wfile.write(body[:bytes_each])
            body = body[bytes_each:]

    return send


short, torn, stalled, long = sent(begin), sent(tear), sent(stall), sent(None, b"more")


def whole(handler: Handler) -> bool:
    handler.serve(body_of(handler), ignores_range=True)
    return True


def wrong_range(handler: Handler) -> bool:
    body = body_of(handler)
    if handler.headers.get("Range") is None:
        return False
    first, last = (int(number) for number in handler.headers["Range"].removeprefix("bytes=").split("-"))
    piece = body[first + 1 : last + 2]
    handler.answer(
        206,
        piece,
        {"ETag": handler.server.etag(body), "Content-Range": f"bytes {first + 1}-{first + len(piece)}/{len(body)}"},
    )
    return True


def compressed(handler: Handler) -> bool:
    handler.answer(200, b"\x1f\x8b", {"Content-Encoding": "gzip"})
    return True


def slow(seconds: float) -> Fault:
    def fault(handler: Handler) -> bool:
        time.sleep(seconds)
        return False

    return fault


def redirect(to: str, status: int = 307) -> Fault:
    def fault(handler: Handler) -> bool:
        handler.answer(status, b"", {"Location": to})
        return True

    return fault


# Faults that pass: who asks again gets what it asked for.
PASSING: dict[str, Fault] = {
    "busy": busy(),
    "internal": busy(500),
    "of a proxy": busy(520),
    "reset": reset,
    "torn": torn,
    "short": short,
    "long": long,
    "wrong range": wrong_range,
    "whole": whole,
    "slow": slow(0.05),
    "dripping": sent(drip(0.001, 4000)),
    "redirect": lambda handler: redirect(handler.server.url + handler.path)(handler),
    "no such host": redirect(f"http://{'a' * 64}.example/"),  # a label that no resolver asks anybody for
}


def at_random(chance: random.Random, share: float) -> Callable[[int, str, Any], Fault | None]:
    """For Store.fault: some requests meet one of them."""
    return lambda number, path, headers: chance.choice(list(PASSING.values())) if chance.random() < share else None


class Files(Mapping[str, bytes]):
    """What lies in a folder, as the objects of a bucket."""

    def __init__(self, folder: Path, bucket: str) -> None:
        self._folder, self._bucket = folder, f"/{bucket}/"

    def __getitem__(self, path: str) -> bytes:
        try:
            return (self._folder / path.removeprefix(self._bucket)).read_bytes()
        except OSError as error:
            raise KeyError(path) from error

    def __iter__(self) -> Iterator[str]:
        for file in self._folder.rglob("*"):
            if file.is_file():
                yield self._bucket + str(file.relative_to(self._folder))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def environment(store: Store) -> dict[str, str]:
    """Where s3:// is then, and its keys."""
    names = {"ENDPOINT_URL_S3": store.url, "ACCESS_KEY_ID": KEY_ID, "SECRET_ACCESS_KEY": SECRET, "REGION": REGION}
    return {f"AWS_{name}": value for name, value in names.items()}


def main() -> None:
    """object_store.py FOLDER SHARE SEED: s3://files is FOLDER, and SHARE of the requests fail. Says what to set."""
    folder, share, seed = sys.argv[1:]
    with running(Files(Path(folder), "files"), is_s3=True) as store:
        store.fault = at_random(random.Random(int(seed)), float(share))
        print(*(f"{name}={value}" for name, value in environment(store).items()), flush=True)
        sys.stdin.read()  # as long as whoever started it lives
        print(len(store.requests), "requests,", dict(store.statuses), file=sys.stderr)


if __name__ == "__main__":
    main()

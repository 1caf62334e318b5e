"""Puts the notices that are owed into a repaired wheel: of the libraries that it carries, and of those whose headers
became part of its programs, as one file in the wheel's licences. Fails for a library of which nobody knows the licence.
Writes the wheel anew, with the times of SOURCE_DATE_EPOCH.

  wheel_notices.py WHEEL        run by scripts/wheel, on Debian, in an environment with nanobind
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path, PurePosixPath

# Debian packages of headers that are compiled in.
HEADERS = [
    "libcli11-dev",
    "libconcurrentqueue-dev",
    "libhwy-dev",
    "libspdlog-dev",
    "libtomlplusplus-dev",
    "libxxhash-dev",
    "nlohmann-json3-dev",
]
OURS = "libjbig."  # scripts/no_jbig.c; wheel_contents.py looks into it


def package_of(library: str) -> str | None:
    found = subprocess.run(["dpkg", "-S", f"*/{library}"], capture_output=True, text=True, check=False).stdout
    packages = re.findall(rf"^([^:\s]+)(?::\w+)?: \S+/{re.escape(library)}$", found, re.M)
    return packages[0] if packages else None


def notice_of(package: str) -> str:
    return Path(f"/usr/share/doc/{package}/copyright").read_text(errors="replace")


def carried(names: list[str]) -> list[str]:
    """The libraries in the wheel, by the names that they had before auditwheel added a hash."""
    files = [PurePosixPath(name).name for name in names if ".libs/" in name]
    return sorted(re.sub(r"-[0-9a-f]{8}(?=\.)", "", name, count=1) for name in files)


def notices(names: list[str]) -> str:
    owed: dict[str, list[str]] = {package: [] for package in HEADERS}
    for library in carried(names):
        if library.startswith(OURS):
            continue
        package = package_of(library)
        if package is None:
            raise SystemExit(f"wheel_notices.py: no package says under which licence {library} is")
        owed.setdefault(package, []).append(library)
    parts = ["What Forebay's wheel contains of others, and the notices that come with it."]
    for package, libraries in sorted(owed.items()):
        what = ", ".join(libraries) if libraries else "headers"
        parts.append(f"{'=' * 80}\n{package} ({what})\n\n{notice_of(package).strip()}")
    nanobind = importlib.metadata.distribution("nanobind")
    texts = [file.read_text() for file in nanobind.files or [] if file.name.startswith("LICENSE")]
    if not texts:
        raise SystemExit("wheel_notices.py: nanobind comes without its licence")
    parts.append(f"{'=' * 80}\nnanobind {nanobind.version}\n\n{texts[0].strip()}")
    return "\n\n".join(parts) + "\n"


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def main(path: str) -> None:
    with zipfile.ZipFile(path) as wheel:
        files = {
            entry.filename: (entry.external_attr, wheel.read(entry)) for entry in wheel.infolist() if not entry.is_dir()
        }
    (record,) = [name for name in files if name.endswith(".dist-info/RECORD")]
    place = f"{record.removesuffix('RECORD')}licenses/THIRD-PARTY-NOTICES.txt"
    text = notices(list(files)).encode()
    lines = files[record][1].decode().splitlines()
    lines = [line for line in lines if not line.startswith(f"{place},")] + [record_line(place, text)]
    files[place] = (0o100644 << 16, text)
    files[record] = (files[record][0], ("\n".join(sorted(lines)) + "\n").encode())
    moment = max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800)  # a zip begins with 1980
    stamp = time.gmtime(moment)[:6]
    made = f"{path}.made"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name in sorted(files, key=lambda name: (".dist-info/" in name, name)):
            entry = zipfile.ZipInfo(name, stamp)
            entry.external_attr, data = files[name]
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    os.replace(made, path)


if __name__ == "__main__":
    main(sys.argv[1])

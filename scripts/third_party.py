"""Says what a package of Forebay contains of others: THIRD-PARTY-NOTICES.txt has the notices that are owed, and
forebay.cdx.json is a bill of materials (CycloneDX). Needs Debian, whose packages say under which licence they are.

  third_party.py wheel WHEEL          Of a repaired wheel, into it: what it carries and what was compiled in. Fails for
                                      a library of which nobody knows the licence. Writes the wheel anew, with the times
                                      of SOURCE_DATE_EPOCH. Run by scripts/wheel, in an environment with nanobind.
  third_party.py prefix PREFIX DOC    Of what `cmake --install` put into PREFIX, into the folder DOC: what was compiled
                                      in, and in the bill also what the libraries and the command need.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path, PurePosixPath
from urllib.parse import quote

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
NOTICES = "THIRD-PARTY-NOTICES.txt"
BILL = "forebay.cdx.json"
OURS = ("libjbig.", "libforebay")  # scripts/no_jbig.c; wheel_contents.py looks into it


def said_by(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def package_of(library: str) -> str | None:
    line = rf"^([^:\s]+)(?::\w+)?: (?!\S*/lib32/)\S+/{re.escape(library)}$"
    found = re.findall(line, said_by("dpkg", "-S", f"*/{library}"), re.M)
    return found[0] if found else None


def packages_of(libraries: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """By package its libraries; and those of no package."""
    packages: dict[str, list[str]] = {}
    unknown = []
    for library in sorted(libraries):
        if library.startswith(OURS):
            continue
        package = package_of(library)
        if package is None:
            unknown.append(library)
        else:
            packages.setdefault(package, []).append(library)
    return packages, unknown


def carried(names: list[str]) -> list[str]:
    """The libraries in the wheel, by the names that they had before auditwheel added a hash."""
    files = [PurePosixPath(name).name for name in names if ".libs/" in name]
    return [re.sub(r"-[0-9a-f]{8}(?=\.)", "", name, count=1) for name in files]


def needed(prefix: Path) -> list[str]:
    """The libraries that what was installed names."""
    files = [*prefix.glob("lib*/**/libforebay*.so"), *prefix.glob("bin/forebay")]
    programs = [str(file) for file in files if file.open("rb").read(4) == b"\x7fELF"]
    return sorted(set(re.findall(r"\(NEEDED\).*\[(.+)\]", said_by("readelf", "-d", *programs))))


def notices(packages: dict[str, list[str]], more: list[str]) -> str:
    parts = ["What this package of Forebay contains of others, and the notices that come with it."]
    for package, libraries in sorted(packages.items()):
        text = Path(f"/usr/share/doc/{package}/copyright").read_text(errors="replace").strip()
        parts.append(f"{'=' * 80}\n{package} ({', '.join(libraries) or 'headers'})\n\n{text}")
    return "\n\n".join([*parts, *more]) + "\n"


def bill(contained: dict[str, list[str]], linked: dict[str, list[str]], more: list[dict[str, object]]) -> str:
    components = list(more)
    for how, packages in (("contained", contained), ("linked", linked)):
        for package, libraries in packages.items():
            version = said_by("dpkg-query", "-W", "-f", "${Version}\n", package).split("\n")[0]
            what = f"{how}: {', '.join(libraries) or 'headers'}"
            components.append(
                {
                    "type": "library",
                    "name": package,
                    "version": version,
                    "purl": f"pkg:deb/debian/{quote(package)}@{quote(version)}",
                    "properties": [{"name": "forebay:how", "value": what}],
                }
            )
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": "forebay"}},
        "components": sorted(components, key=lambda component: str(component["name"])),
    }
    return json.dumps(document, indent=1) + "\n"


def of_nanobind() -> tuple[str, dict[str, object]]:
    nanobind = importlib.metadata.distribution("nanobind")
    texts = [file.read_text() for file in nanobind.files or [] if file.name.startswith("LICENSE")]
    if not texts:
        raise SystemExit("third_party.py: nanobind comes without its licence")
    purl = f"pkg:pypi/nanobind@{nanobind.version}"
    part: dict[str, object] = {"type": "library", "name": "nanobind", "version": nanobind.version, "purl": purl}
    return f"{'=' * 80}\nnanobind {nanobind.version}\n\n{texts[0].strip()}", part


def of_cuda(files: dict[str, tuple[int, bytes]]) -> list[tuple[str, dict[str, object]]]:
    """NVIDIA's runtime, where the module has it inside (scripts/wheel --cuda)."""
    if not any(b"cudart.shm" in data for _, data in files.values()):
        return []
    text = "CUDA runtime (libcudart_static)\n\nNVIDIA's, under its agreement: https://docs.nvidia.com/cuda/eula/"
    return [(f"{'=' * 80}\n{text}", {"type": "library", "name": "NVIDIA CUDA runtime"})]


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def into_wheel(path: str) -> None:
    with zipfile.ZipFile(path) as wheel:
        files = {
            entry.filename: (entry.external_attr, wheel.read(entry)) for entry in wheel.infolist() if not entry.is_dir()
        }
    packages, unknown = packages_of(carried(list(files)))
    if unknown:
        raise SystemExit(f"third_party.py: no package says under which licence these are: {', '.join(unknown)}")
    packages |= {package: packages.get(package, []) for package in HEADERS}
    others = [of_nanobind(), *of_cuda(files)]
    (record,) = [name for name in files if name.endswith(".dist-info/RECORD")]
    folder = record.removesuffix("RECORD")
    lines = files[record][1].decode().splitlines()
    for name, content in (
        (f"{folder}licenses/{NOTICES}", notices(packages, [text for text, _ in others])),
        (f"{folder}sboms/{BILL}", bill(packages, {}, [part for _, part in others])),
    ):
        files[name] = (0o100644 << 16, content.encode())
        lines = [line for line in lines if not line.startswith(f"{name},")] + [record_line(name, content.encode())]
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


def into_prefix(prefix: Path, documents: str) -> None:
    if shutil.which("dpkg") is None:
        print(f"third_party.py: no dpkg here, so {NOTICES} and {BILL} are not written", file=sys.stderr)
        return
    compiled_in: dict[str, list[str]] = {
        package: [] for package in HEADERS if Path(f"/usr/share/doc/{package}/copyright").exists()
    }
    linked, unknown = packages_of(needed(prefix))
    rest: list[dict[str, object]] = [{"type": "library", "name": library} for library in unknown]
    place = Path(documents)
    place.mkdir(parents=True, exist_ok=True)
    (place / NOTICES).write_text(notices(compiled_in, []))
    (place / BILL).write_text(bill(compiled_in, linked, rest))


if __name__ == "__main__":
    if sys.argv[1] == "wheel":
        into_wheel(sys.argv[2])
    else:
        into_prefix(Path(sys.argv[2]), sys.argv[3])

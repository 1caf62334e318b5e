"""Says what a repaired wheel carries, and fails if a file in it needs a library that neither the wheel nor every Linux
of its platform tag has, or anything of MPI or under the GPL, looks for libraries in the current folder, or lacks its
notices.

  wheel_contents.py WHEEL        run by scripts/wheel, in an environment with auditwheel
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import PurePosixPath

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

# Always there with glibc and GCC; what else auditwheel allows (X11, OpenGL, ...) has no business here.
SYSTEM = {
    "libc.so.6",
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libz.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}


def dynamic(data: bytes) -> list[DynamicSection]:
    return [part for part in ELFFile(io.BytesIO(data)).iter_sections() if isinstance(part, DynamicSection)]


def needs(data: bytes) -> list[str]:
    """The libraries that an ELF file names."""
    return [tag.needed for section in dynamic(data) for tag in section.iter_tags("DT_NEEDED")]


def places(data: bytes) -> list[str]:
    """Where an ELF file looks for them."""
    paths = [tag.runpath for section in dynamic(data) for tag in section.iter_tags("DT_RUNPATH")]
    paths += [tag.rpath for section in dynamic(data) for tag in section.iter_tags("DT_RPATH")]
    return [element for path in paths for element in path.split(":")]


def main(path: str) -> int:
    problems = []
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        files = {name: wheel.read(name) for name in names if not name.endswith("/")}
    programs = {name: data for name, data in files.items() if data[:4] == b"\x7fELF"}
    carried = {PurePosixPath(name).name for name in programs}
    for name, data in sorted(programs.items()):
        print(f"{len(data) / 1e3:9.0f} kB  {name}")
        for place in places(data):
            if not place.startswith(("/", "$ORIGIN", "${ORIGIN}")):
                problems.append(f"{name} looks for libraries in {place!r}, which depends on the current folder")
        for library in needs(data):
            if library not in carried | SYSTEM:
                problems.append(f"{name} needs {library}, which the wheel does not carry")
            if "mpi" in library:
                problems.append(f"{name} needs {library}: forebay.mpi goes through mpi4py to the MPI of the machine")
    for name, data in programs.items():
        if PurePosixPath(name).name.startswith("libjbig") and b"Forebay's place holder for libjbig" not in data:
            problems.append(f"{name} is under the GPL: scripts/wheel puts scripts/no_jbig.c in its place")
    if not any(name.endswith("/licenses/THIRD-PARTY-NOTICES.txt") for name in names):
        problems.append("the notices of what it carries are missing")
    if not any(name.endswith("/sboms/forebay.cdx.json") for name in names):
        problems.append("the bill of materials is missing")
    for needed in ("forebay/py.typed", "forebay/_core.pyi", "forebay/bin/forebay"):
        if needed not in names:
            problems.append(f"{needed} is missing")
    print(f"{sum(map(len, files.values())) / 1e6:.1f} MB in {len(files)} files, of which {len(programs)} are programs")
    for problem in problems:
        print(f"{PurePosixPath(path).name}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

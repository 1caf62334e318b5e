"""``python -m forebay`` and ``forebay``: runs the command in place of this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    command = Path(__file__).with_name("bin") / "forebay"
    os.execv(command, ["forebay", *sys.argv[1:]])


if __name__ == "__main__":
    main()

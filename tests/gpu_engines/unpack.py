#!/usr/bin/env python3
"""Keep a part that was carried here; with the last one, unpack all parts.

python3 unpack FOLDER      beside a part and part.json; FOLDER/root is whole after the last part
"""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
import sys
import tarfile
from pathlib import Path


class Joined:
    """Files read one after the other."""

    def __init__(self, files: list[Path]) -> None:
        self._files = iter(files)
        self._file = next(self._files).open("rb")

    def read(self, size: int = -1) -> bytes:
        """Return at most so many bytes; none at the end."""
        while not (content := self._file.read(size)):
            following = next(self._files, None)
            if following is None:
                return b""
            self._file.close()
            self._file = following.open("rb")
        return content


def main() -> None:
    """Keep this part."""
    here, folder = Path(__file__).resolve().parent, Path(sys.argv[1])
    about = json.loads((here / "part.json").read_text())
    number, sums = about["number"], about["sha256"]
    content = (here / "part").read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sums[number - 1]:
        sys.exit(f"part {number}: expected the SHA-256 {sums[number - 1]}, found {found}; carry it again")
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    (parts / str(number)).write_bytes(content)
    files = [parts / str(index) for index in range(1, len(sums) + 1)]
    missing = [file.name for file in files if not file.exists()]
    print(f"part {number} of {len(sums)} is as it was packed; missing: {', '.join(missing) or 'none'}")
    if missing:
        return
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    with lzma.open(Joined(files), "rb") as plain, tarfile.open(fileobj=plain, mode="r|") as archive:  # type: ignore[call-overload]
        archive.extractall(root, filter="data")
    print(f"unpacked into {root}")


if __name__ == "__main__":
    main()

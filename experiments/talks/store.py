"""A folder behind one shared store: every read waits for its latency and for its turn at the bandwidth.

store.py FOLDER MOUNT --latency-ms 2 --megabytes 40    until it is unmounted (fusermount -u MOUNT)
"""

import argparse
import errno
import os
import threading
import time

import fuse


class SharedStore(fuse.Operations):
    def __init__(self, folder, latency, bytes_per_second):
        self.folder = folder
        self.latency = latency
        self.rate = bytes_per_second
        self.turn = threading.Lock()
        self.free_at = 0.0  # when what was asked for before has been sent
        self.sent = 0

    def _path(self, path):
        return os.path.join(self.folder, path.lstrip("/"))

    def getattr(self, path, handle=None):
        try:
            found = os.lstat(self._path(path))
        except OSError as error:
            raise fuse.FuseOSError(error.errno) from error
        keys = ("st_mode", "st_size", "st_mtime", "st_nlink", "st_uid", "st_gid")
        return {key: getattr(found, key) for key in keys}

    def readdir(self, path, handle):
        return [".", "..", *os.listdir(self._path(path))]

    def open(self, path, info):
        if info.flags & os.O_ACCMODE != os.O_RDONLY:
            raise fuse.FuseOSError(errno.EROFS)
        info.fh = os.open(self._path(path), os.O_RDONLY)
        info.direct_io = True  # no page cache: ranks on other nodes would not share one
        return 0

    def read(self, path, size, offset, info):
        data = os.pread(info.fh, size, offset)
        with self.turn:
            self.free_at = max(self.free_at, time.monotonic()) + len(data) / self.rate
            self.sent += len(data)
            until = self.free_at + self.latency
        time.sleep(max(0.0, until - time.monotonic()))
        return data

    def release(self, path, info):
        os.close(info.fh)
        return 0

    def statfs(self, path):
        return {"f_bsize": 4096, "f_frsize": 4096, "f_blocks": self.sent, "f_bfree": 0, "f_bavail": 0}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("mount")
    parser.add_argument("--latency-ms", type=float, default=2)
    parser.add_argument("--megabytes", type=float, default=40, help="a second, of all ranks together")
    options = parser.parse_args()
    store = SharedStore(options.folder, options.latency_ms / 1e3, options.megabytes * 1e6)
    fuse.FUSE(store, options.mount, foreground=True, raw_fi=True, ro=True, max_read=1 << 20)


if __name__ == "__main__":
    main()

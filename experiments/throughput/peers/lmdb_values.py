"""Reads the LMDB of containers.py for loaders that are programmed in Python: random access by py-lmdb, and as much of
Caffe's Datum as it takes to find the encoded image."""

import lmdb

DATA, LABEL = 4, 5  # fields of a Datum


class Values:
    """Opened in the process that reads: an environment must not be carried over a fork."""

    def __init__(self, folder):
        self.folder, self.transaction = folder, None
        with lmdb.open(folder, readonly=True, lock=False) as environment, environment.begin() as transaction:
            self.keys = list(transaction.cursor().iternext(values=False))

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, index):
        """The encoded image and its label."""
        if self.transaction is None:
            self.transaction = lmdb.open(self.folder, readonly=True, lock=False, readahead=False).begin(buffers=True)
        return image_of(self.transaction.get(self.keys[index]))


def varint(datum, at):
    value = shift = 0
    while True:
        byte = datum[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def image_of(datum):
    at, image, label = 0, None, 0
    while at < len(datum):
        tag, at = varint(datum, at)
        value, at = varint(datum, at)
        if tag >> 3 == DATA:
            image = datum[at:at + value]
            at += value
        elif tag >> 3 == LABEL:
            label = value
    return image, label

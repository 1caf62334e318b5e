"""Small pictures as PNG files, as libpng writes them: RGB, of each row the filter that leaves the smallest values."""

import math
import random
import struct
import zlib


def random_picture(width, height, seed):
    """Of a few waves and some noise, which compress about as photographs of this size do."""
    source = random.Random(seed)
    waves = [[(source.uniform(10, 50), source.uniform(-0.3, 0.3), source.uniform(-0.3, 0.3), source.uniform(0, 6.3))
              for _ in range(3)] for _ in range(3)]
    rows = []
    for y in range(height):
        row = bytearray()
        for x in range(width):
            for colour in waves:
                value = 128 + sum(a * math.sin(u * x + v * y + w) for a, u, v, w in colour) + source.gauss(0, 6)
                row.append(min(255, max(0, round(value))))
        rows.append(bytes(row))
    return encode(width, rows)


def encode(width, rows):
    above = bytes(3 * width)
    filtered = b""
    for row in rows:
        filtered += min((bytes([number]) + filter_row(number, row, above) for number in range(5)), key=cost)
        above = row
    header = struct.pack(">IIBBBBB", width, len(rows), 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(filtered, 9)) + \
        chunk(b"IEND", b"")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def filter_row(number, row, above):
    left = bytes(3) + row[:-3]
    corner = bytes(3) + above[:-3]
    predicted = {0: lambda a, b, c: 0, 1: lambda a, b, c: a, 2: lambda a, b, c: b, 3: lambda a, b, c: (a + b) // 2,
                 4: paeth}[number]
    return bytes((value - predicted(a, b, c)) & 255 for value, a, b, c in zip(row, left, above, corner, strict=False))


def paeth(a, b, c):
    p = a + b - c
    return min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]


def cost(row):
    return sum(min(value, 256 - value) for value in row[1:])

"""Rows of tables as Python's csv module reads them, for the test csv_python.

csv_rows.py TABLES ROWS: TABLES has each table behind its length (4 bytes, little-endian); its first byte picks the
separator. ROWS gets, for each, the lengths and bytes of all fields, behind their length.
"""

import csv
import io
import struct
import sys


def main() -> None:
    with open(sys.argv[1], "rb") as file:
        tables = file.read()
    with open(sys.argv[2], "wb") as out:
        at = 0
        while at < len(tables):
            (length,) = struct.unpack_from("<I", tables, at)
            table = tables[at + 4 : at + 4 + length]
            at += 4 + length
            text = table[1:].removeprefix(b"\xef\xbb\xbf").decode("latin-1")
            rows = csv.reader(io.StringIO(text, newline=""), delimiter=",;\t|"[table[0] % 4])
            all_rows = "".join(
                f"({''.join(f'{len(field)}:{field}' for field in row)})" for row in rows if row
            ).encode("latin-1")
            out.write(struct.pack("<I", len(all_rows)) + all_rows)


if __name__ == "__main__":
    main()

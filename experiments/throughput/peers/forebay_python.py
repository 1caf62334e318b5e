"""Forebay through its Python package: LIST is a configuration file. --threads is the number of decoders, 0 for as many
as it finds useful. Batches are NumPy's views of its memory."""

import forebay

import common
from measuring import measure


def batches(options):
    more = {"workers_decode": options.threads} if options.threads else {}
    with forebay.Feeder(options.list, **more) as feeder:
        for batch in feeder:
            images = batch.images
            yield images


def main():
    options = common.arguments(__doc__)
    measure(batches(options), options, lambda batch: batch.copy(), version=f"forebay {forebay.__version__}")


if __name__ == "__main__":
    main()

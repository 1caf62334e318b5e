"""Forebay through its Python package: LIST is a configuration file. --threads is the number of decoders, 0 for as many
as it finds useful. Batches are PyTorch's tensors, without a copy."""

import forebay

import common
from measuring import measure


def batches(options):
    more = {"workers_decode": options.threads} if options.threads else {}
    with forebay.Feeder(options.list, **more) as feeder:
        for batch in feeder:
            images, _ = batch.torch()
            yield images


def main():
    options = common.arguments(__doc__)
    measure(batches(options), options, lambda batch: batch.numpy().copy(), version=f"forebay {forebay.__version__}")


if __name__ == "__main__":
    main()

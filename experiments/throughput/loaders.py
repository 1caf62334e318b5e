"""The other loaders, and how each is set up: `threads variant`, of which the first is the fastest by measurement and is
what is compared with Forebay. `--variants all` measures all of them."""

from collections import namedtuple

# The virtual environment that it runs in, MODULE.FUNCTION of peers/, the ways to set it up for
# files, and the best of them beside a trainer that takes a core. `writes`: it reads a format of its own.
Loader = namedtuple("Loader", "environment code ways beside_trainer writes", defaults=(False,))

ON_TWO = ("2 simplejpeg", "2 cv2", "2 torchvision", "2 pil", "3 simplejpeg", "4 simplejpeg")

PEERS = {
    "forebay-python": Loader("torch", "plain_loaders.forebay_python", ("2", "0"), "0"),
    "thread-pool": Loader("torch", "plain_loaders.thread_pool", ON_TWO, "2 simplejpeg"),
    "pytorch": Loader("torch", "torch_loaders.workers", ON_TWO, "2 simplejpeg"),
    "torchvision": Loader("torch", "torch_loaders.reference", ("2", "4"), "2"),
    "webdataset": Loader("torch", "torch_loaders.web_dataset", ON_TWO, "2 simplejpeg", True),
    "streaming": Loader("torch", "torch_loaders.streaming_mds", ON_TWO, "2 simplejpeg", True),
    "grain": Loader("torch", "plain_loaders.grain_data", ("2 simplejpeg", "2 cv2", "3 simplejpeg", "2 simplejpeg processes"),
                    "2 simplejpeg"),
    "spdl": Loader("torch", "plain_loaders.spdl_io", ("2 simplejpeg", "2 cv2", "3 simplejpeg"), "2 simplejpeg"),
    "dali": Loader("dali", "dali.run", ("3 fast", "2 fast", "4 fast", "2"), "2 fast"),
    "tfdata": Loader("tf", "tf_data.run", ("2 fast", "2", "4 fast"), "2 fast"),
    "ffcv": Loader("ffcv", "ffcv_jpeg.run", ("2", "3"), "2", True),
}

# What Forebay through Python is to be at least, times the loader, on two cores.
WANTED = {"thread-pool": 1.3, "pytorch": 1.6, "torchvision": 2.5, "webdataset": 1.8, "streaming": 1.8, "grain": 1.5,
          "spdl": 1.3, "dali": 1.25, "tfdata": 1.5, "ffcv": 2.0}


def threads_of(way):
    return way.split()[0]


def variant_of(way):
    return way.partition(" ")[2]


def title_of(name, way):
    return f"{name}, {'auto' if way == '0' else way}"

"""Several views of each sample from one decode (transform.views): how many views per second they give."""

import os
import subprocess

from bench import Row
from case import Case, Check, config_file, ratio, read_once

WANTED_OF_TWO_VIEWS = 1.5  # times the views/s of one


def several_views(bench, data, only, variants):
    """Rows of one, two and four views of each sample, from files and packed: views per second."""
    if "forebay" not in only:
        return None
    images, about = data.photographs()
    packed = os.path.join(bench.folder, "packed")
    if not os.path.isdir(packed):
        subprocess.run([bench.forebay_command, "pack", images, packed], check=True, stdout=subprocess.DEVNULL)
    read_once(packed)
    cores = len(bench.cores)
    rows = {}

    def views_of(config, views):
        run = bench.forebay(config, cores, [f"workers.decode={cores}", f"transform.views={views}"])
        return {**run, "images_per_s": views * run["images_per_s"]}

    for stored, config in (("files", config_file(bench, "views", "filelist", images, 224)),
                           ("packed", config_file(bench, "views-packed", "pack", packed, 224))):
        for views in (1, 2, 4):
            rows[stored, views] = Row(f"{stored}, views = {views}",
                                      lambda config=config, views=views: views_of(config, views))

    def checks():
        return [Check(f"views per second, two / one, {stored}", ratio(rows, (stored, 2), (stored, 1)),
                      WANTED_OF_TWO_VIEWS) for stored in ("files", "packed")]

    return Case("views", f"Several views of photographs, 224 x 224 ({about})", list(rows.values()), checks)

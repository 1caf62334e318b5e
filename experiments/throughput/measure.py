#!/usr/bin/env python3
"""JPEG files to batches of tensors: Forebay beside the bare loop and other loaders, in turn on the same cores. Started
by `run`, which builds what this needs; README.md says how every loader is set up and what the figures do not say.

Figures are medians over the rounds with the range; a ratio is the median of the ratios of the rounds. The exit code is
1 when a wanted figure was measured and is not reached."""

import argparse
import json
import os
import subprocess
import sys
import time

import data
import tables
from bench import PEERS, Bench, machine, tidy
from cases import CASES

LOADERS = ("bare", "forebay", *PEERS)


def parse():
    parser = argparse.ArgumentParser(prog="run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", help=f"some of {','.join(CASES)}; default: all",
                        default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", metavar="LOADERS", default=",".join(LOADERS), help=f"some of {','.join(LOADERS)}")
    parser.add_argument("--cores", help="core numbers, as 0,1; default: the first two that this process may use")
    parser.add_argument("--seconds", type=float, default=5, help="measured in each run")
    parser.add_argument("--warm", type=float, default=3, help="seconds before it")
    parser.add_argument("--variants", choices=("best", "all"), default="best", help="how the other loaders are set up: "
                        "as was fastest before, or in every way that was tried")
    parser.add_argument("--data", help="a folder with photos/, cifar10/; default: data, else $FOREBAY_DATA, else "
                                       "../shared/data; what is not there is generated")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--peers", default="build/peers", help="where peers/setup has installed them")
    parser.add_argument("--out", default="build/throughput", help="results.json, throughput.png and generated data")
    options = parser.parse_args()
    for name, known in (("case", CASES), ("only", LOADERS)):
        chosen = getattr(options, name).split(",")
        unknown = [item for item in chosen if item not in known]
        if unknown:
            parser.error(f"--{name}: there is no {unknown[0]}; there are {', '.join(known)}")
        setattr(options, name, chosen)
    allowed = sorted(os.sched_getaffinity(0))
    options.cores = [int(core) for core in options.cores.split(",")] if options.cores else allowed[:2]
    if not set(options.cores) <= set(allowed):
        parser.error(f"--cores: this process may use {allowed}")
    return options


def data_folder(given):
    """The folder of real data, or nothing."""
    if given and not os.path.isdir(given):
        raise SystemExit(f"--data: {given} is not a folder")
    places = [given, "data", os.environ.get("FOREBAY_DATA"), "../shared/data"]
    return next((os.path.abspath(place) for place in places if place and os.path.isdir(place)), None)


def say(text):
    print(text, file=sys.stderr, flush=True)


def write_chart(options, results):
    """Through the environment that has matplotlib; without it there is a table and no picture."""
    python = os.path.join(options.peers, "plot", "bin", "python")
    if not os.path.exists(python):
        say("No chart: matplotlib is not installed (peers/setup --only plot).")
        return
    chart = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tables.py")
    subprocess.run([python, chart, results, "--chart", os.path.join(options.out, "throughput.png")], check=True)


def case_to_json(case):
    return {"name": case.name, "title": case.title, "table": tables.table_of(case),
            "rows": [row.to_json() for row in case.rows]}


def main():
    options = parse()
    begin = time.monotonic()
    about = machine()
    os.makedirs(options.out, exist_ok=True)
    tidy(options.out)
    bench = Bench(options.build, options.peers, options.out, options.cores, options.warm, options.seconds)
    images = data.Data(bench.forebay_command, options.out, data_folder(options.data))
    print(f"{about['cpu']}, {about['cores']} cores of which {options.cores} are used, load {about['load']:.2f}, "
          f"{about['date']}; {options.rounds} rounds of {options.seconds:g} s")
    cases = []
    for name in options.case:
        case = CASES[name](bench, images, options.only, options.variants)
        if not case:
            continue
        cases.append(case)
        say(case.title)
        case.run(options.rounds, say)
        print("\n" + tables.table_of(case), flush=True)
    checks = [check for case in cases for check in case.checks()]
    versions = tables.versions_of(cases)
    print("\nVersions: " + "; ".join(versions) if versions else "")
    print("\nWanted")
    print("\n".join(str(check) for check in checks))
    found = {"machine": about, "cores": options.cores, "rounds": options.rounds, "seconds": options.seconds,
             "versions": versions, "cases": [case_to_json(case) for case in cases],
             "checks": [check.to_json() for check in checks]}
    results = os.path.join(options.out, "results.json")
    with open(results, "w", encoding="utf-8") as out:
        json.dump(found, out, indent=1)
    write_chart(options, results)
    say(f"{(time.monotonic() - begin) / 60:.1f} minutes; {results}")
    return 1 if any(check.passed is False for check in checks) else 0


if __name__ == "__main__":
    sys.exit(main())

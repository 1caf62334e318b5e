"""Real runs beside virtual ones, in pairs of the same store, policy and seed."""

import json
import pathlib
import statistics

from study.intervals import bootstrap


def key(line):
    return (line["kind"], line["store"], line["policy"], line["seed"])


def read(path):
    path = pathlib.Path(path)
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def append(path, line):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")


def pairs(lines):
    """[(real, virtual)] in the order of store, policy and seed."""
    virtual = {key(line)[1:]: line for line in lines if line["kind"] == "virtual"}
    real = sorted((line for line in lines if line["kind"] == "real"), key=key)
    return [(line, virtual[key(line)[1:]]) for line in real if key(line)[1:] in virtual]


def accuracy(line):
    return 100 * line["right"][-1] / line["of"]


def with_interval(values, digits=2):
    interval = bootstrap(values)
    said = f"{statistics.fmean(values):+.{digits}f}"
    return said if interval is None else f"{said} [{interval[0]:+.{digits}f} .. {interval[1]:+.{digits}f}]"


def row(name, chosen):
    def both(value, form):
        return " / ".join(form.format(statistics.fmean(value(line) for line in side)) for side in zip(*chosen))

    differences = [accuracy(virtual) - accuracy(real) for real, virtual in chosen]
    fresh = [100 * (virtual["fresh"] / virtual["steps"] - real["fresh"] / real["steps"]) for real, virtual in chosen]
    return [
        name,
        str(len(chosen)),
        both(lambda line: line["steps"], "{:.0f}"),
        both(lambda line: 100 * line["fresh"] / line["steps"], "{:.1f}"),
        with_interval(fresh),
        both(lambda line: line["uses"][1], "{:.1f}"),
        both(lambda line: line["uses"][2], "{:.1f}"),
        both(lambda line: 100 * line["stall"], "{:.1f}"),
        both(accuracy, "{:.2f}"),
        with_interval(differences),
    ]


def table(lines):
    chosen = pairs(lines)
    if not chosen:
        return "There are no pairs of real and virtual runs yet."
    rows = [
        [
            "store, R, policy",
            "pairs",
            "steps",
            "fresh, %",
            "difference, points",
            "uses p99",
            "most",
            "stall, %",
            "accuracy, %",
            "difference, points",
        ],
        ["---"] * 10,
    ]
    kinds = dict.fromkeys((real["store"], real["R"], real["policy"]) for real, _ in chosen)
    for store, ratio, policy in kinds:
        of = [pair for pair in chosen if (pair[0]["store"], pair[0]["policy"]) == (store, policy)]
        rows.append(row(f"{store}, {ratio:g}, {policy}", of))
    rows.append(row("**all**", chosen))
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)

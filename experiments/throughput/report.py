"""What was measured as text: a table per case."""

import statistics

NOTHING = "-"


def ratios_of(case, row):
    """Of the reference row to a row, by rounds."""
    if not case.reference or row is case.reference or not case.reference.rates:
        return []
    return [ours / theirs for ours, theirs in zip(case.reference.rates, row.rates, strict=False)]


def text_of(figure, form):
    return NOTHING if figure is None else f"{figure:{form}}"


def columns_of(case):
    """(heading, width, text of a row) for each column of a case's table."""
    rows = [row for row in case.rows if row.rates]
    columns = [("images/s", 8, lambda row: f"{row.median:.0f}"),
               ("range", 16, lambda row: f"[{min(row.rates):.0f} .. {max(row.rates):.0f}]"),
               ("CPU us/image", 12, lambda row: f"{row.cpu_us:.1f}")]
    if any(row.steps_ms for row in rows):
        columns += [("step p50, ms", 12, lambda row: text_of(row.step_ms(0.5), ".1f")),
                    ("step p99, ms", 12, lambda row: text_of(row.step_ms(0.99), ".1f")),
                    ("waiting", 8, lambda row: text_of(row.median_of("waiting"), ".1%"))]
    if any(row.median_of("pss_mb") for row in rows):
        columns.append(("memory, MB", 10, lambda row: text_of(row.median_of("pss_mb"), ".0f")))
    if any(row.median_of("first_batch_s") for row in rows):
        columns.append(("first batch, s", 14, lambda row: text_of(row.median_of("first_batch_s"), ".2f")))
    if case.base:
        columns.append(("of the bare loop", 16, lambda row: text_of(row.ratio_to(case.base), ".2f")))
    if case.reference:
        columns.append((f"{case.reference.name.split(',')[0]} relative to it", 28, lambda row: spread_of(
            ratios_of(case, row))))
    return columns


def spread_of(ratios):
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f} .. {max(ratios):.2f}]" if ratios else ""


def table_of(case):
    return "\n".join([*rows(case), *gaps(case)])


def rows(case):
    columns = columns_of(case)
    width = max(len(row.name) for row in case.rows)
    yield case.title
    yield f"{'':<{width}}  " + "  ".join(f"{heading:>{space}}" for heading, space, _ in columns)
    for row in case.rows:
        cells = [f"{text(row):>{space}}" for _, space, text in columns] if row.rates else [f"missing: {row.failure}"]
        yield f"{row.name:<{width}}  {'  '.join(cells)}".rstrip()


def gaps(case):
    """Bursts do not show in a rate, but they empty a queue."""
    found = {row.name: max(result["longest_gap"] for result in row.results) for row in case.rows
             if row.rates and "longest_gap" in row.results[0]}
    if found:
        name = max(found, key=found.get)
        yield f"Longest time without a batch: {found[name]:.1f} of the mean ({name})"


def versions_of(cases):
    return sorted({result["version"] for case in cases for row in case.rows for result in row.results
                   if "version" in result})

"""What the part found, as one text at its end: which test held for which kind of pool, what the kernel said of the
memory, and how long the guests took to boot. Only what has passed is in it."""

CELLS = {}  # test -> kind -> "held" or "FAILED"
SAID = []  # lines


def held(kind, test, cell="held"):
    CELLS.setdefault(test, {})[kind] = cell


def said(line):
    SAID.append(line)


def text():
    """The table, with a column for each kind in the order in which they came; "-" is a test that is not about a kind, or
    did not get there."""
    kinds = list(dict.fromkeys(kind for row in CELLS.values() for kind in row))
    rows = [["test", *kinds], *([test, *(row.get(kind, "-") for kind in kinds)] for test, row in CELLS.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "".join(f"vm: {line}\n" for line in [*(lines if CELLS else []), *SAID])

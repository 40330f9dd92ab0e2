"""Tables of text reports, as somebody reads them: a field that goes on below is one."""


def rows(text: str) -> list[tuple[str, ...]]:
    """The fields of each row of every table, header included. A first field is never empty."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if not line.strip().startswith("|"):
            continue
        fields = line.strip().strip("|").split("|")
        if fields[0].startswith("  "):  # one blank is the frame's, the second that of a name that goes on
            found[-1] = [" ".join(filter(None, (old, new.strip()))) for old, new in zip(found[-1], fields, strict=True)]
        else:
            found.append([field.strip() for field in fields])
    return [tuple(row) for row in found]

"""`python -m tests.golden [CASE ...]` writes outputs anew; with them the examples in the docs.

`--keep` keeps the reports of this schema version.
"""

import json
import shutil
import sys

from tests.golden import examples, rendering, transcripts
from tests.golden.rendering import OLD_REPORTS, OUTPUTS


def main(names: list[str]) -> None:
    """Rewrite outputs/ and, where no case is named, transcripts/; folders of cases that do not exist any more go."""
    known = rendering.cases()
    if unknown := set(names) - set(known):
        sys.exit(f"no such case: {', '.join(sorted(unknown))}. Cases: {', '.join(known)}")
    for folder in OUTPUTS.iterdir() if OUTPUTS.is_dir() else ():
        if folder.name not in known or not names or folder.name in names:
            shutil.rmtree(folder)
    for case in names or known:
        (OUTPUTS / case).mkdir(parents=True)
        for name, text in rendering.render(case).items():
            (OUTPUTS / case / name).write_text(text, encoding="utf-8")
    for name in () if names else transcripts.names():
        (transcripts.TRANSCRIPTS / f"{name}.txt").write_text(transcripts.play(name), encoding="utf-8")


def show() -> None:
    """Write the examples of output in the docs anew."""
    for page in examples.pages():
        page.write_text(examples.updated(page.read_text(encoding="utf-8")), encoding="utf-8")


def keep() -> None:
    """Copy the stored JSON reports to the folder of their schema version, without blanks."""
    for path in sorted(OUTPUTS.glob("*/report.json")):
        report = json.loads(path.read_bytes())
        place = OLD_REPORTS / f"v{report['schema_version']}" / f"{path.parent.name}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(report, ensure_ascii=False, separators=(",", ":"))
        place.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--keep"]:
        keep()
    else:
        main(sys.argv[1:])
        show()

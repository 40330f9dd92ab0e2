"""The formats of the report. Standard library only: `--help` names them."""

import enum
from pathlib import Path
from typing import Final


class ReportFormat(enum.StrEnum):
    """Formats of the report, in the order of writing. Large ones come last, because the disk may be full."""

    renderer: str  # module:function below orchestrator/report, imported late
    needs: tuple[str, ...]  # arguments of the renderer after the report
    always: bool  # every run has it in its folder

    def __new__(cls, suffix: str, renderer: str, needs: tuple[str, ...] = (), always: bool = False) -> "ReportFormat":  # noqa: FBT001, FBT002 - a row of a table
        """Make a format. renderer: its "module:function" in report/. always: every run has it in its folder.

        suffix: of the file, without its first dot; also the name of the format. needs: names of the arguments that the
        function takes after the report.
        """
        made = str.__new__(cls, suffix)
        made._value_ = suffix
        made.renderer, made.needs, made.always = renderer, needs, always
        return made

    JSON = "json", "as_json:to_json", (), True
    TXT = "txt", "as_text:to_text", ("layout",), True
    MD = "md", "as_markdown:to_markdown", ("layout",)
    CSV = "csv", "as_csv:to_csv", (), True
    PYTORCH = "pytorch.json", "as_pytorch:to_pytorch", ("layout",)
    HTML = "html", "html.page:to_html", ("timeline", "layout"), True
    SAMPLES = "samples.csv", "as_samples:to_samples", ("samples",)

    @classmethod
    def of_name(cls, name: str) -> "ReportFormat | None":
        """Return the format of a file name, by its longest known suffix; None if it has no such suffix."""
        own = [kind for kind in cls if name.lower().endswith(f".{kind}")]
        return max(own, key=len, default=None)


ALSO_CALLED: Final = {"text": ReportFormat.TXT, "markdown": ReportFormat.MD}
"""Other names that users type for a format, besides its suffix."""
ALWAYS: Final = tuple(kind for kind in ReportFormat if kind.always)


def target(output_path: Path, kind: ReportFormat) -> Path:
    """Return `output_path` (-o) with the suffix of `kind`: in place of another format's suffix, else appended."""
    own = ReportFormat.of_name(output_path.name)
    if own is kind:
        return output_path
    bare = output_path.name if own is None else output_path.name[: -len(own) - 1]
    return output_path.with_name(f"{bare}.{kind}")

"""Docs that say what the code says: options, keys, tables, links."""

import re
from pathlib import Path

import click
import pytest

from orchestrator.cli.decorators import OPTIONS
from orchestrator.config import catalogue, operators
from orchestrator.config.catalogue import is_probe
from orchestrator.kinds.burn_in.chapter import COLUMNS
from orchestrator.state.failure_policy import POLICY, RUN, retries
from protocol.exit_codes import MEANING
from tests.fakes.commands import ALL_COMMANDS
from tests.golden import examples

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def page_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def table(page: str, name: str) -> list[str]:
    """The lines of a page between two comments."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition(f"<!-- {name}: begin -->\n")[2].partition(f"\n<!-- {name}: end -->")[0].splitlines()


def test_examples_of_output_are_those_of_stored_runs() -> None:
    """`python -m tests.golden` writes them: a benchmark, a triage, a burn-in and a comparison."""
    texts = [page.read_text(encoding="utf-8") for page in examples.pages()]
    assert [examples.updated(text) for text in texts] == texts
    assert len(set().union(*map(examples.named, texts))) >= 4


@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS, ids=[path for path, _ in ALL_COMMANDS])
def test_every_option_is_documented(path: str, command: click.Command) -> None:
    """Each command and each option that --help shows stands in docs/configuration.md, its short form too."""
    assert re.search(rf"\b{re.escape(command.name or '')}\b", CONFIGURATION), path
    options = [
        spelling
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    ]
    missing = [spelling for spelling in options if not re.search(rf"`{re.escape(spelling)}[ `]", CONFIGURATION)]
    assert missing == [], path


def test_the_table_of_options_is_that_of_the_program() -> None:
    """docs/configuration.md repeats the tables of options, and explains each; paste what this test expected."""
    rows = []
    for option in (option for option in OPTIONS if not option.follows):
        flags = [word for word in re.split(", |/", option.spec) if word]
        keys = [one.key for one in OPTIONS if option.key and option.key in {one.key, one.follows}]
        cells = [", ".join(f"`{word}`" for word in words) for words in (flags, keys)]
        rows.append("".join(f"| {cell} " if cell else "| " for cell in (*cells, option.default)) + "|")
    written = [re.split(r"(?<!\\)\|", line) for line in table("docs/configuration.md", "options")[2:]]
    assert ["|".join(cells[:4]).replace("\\|", "|") + "|" for cells in written] == rows
    assert all(cells[4].strip() for cells in written)


def test_the_table_of_failures_is_the_policy() -> None:
    """docs/failures.md repeats state/failure_policy.py; after a change of it, paste what this test expected."""
    rows = ["| what happened | what is done | retries | why |", "|---|---|---|---|"]
    for category, rule in POLICY.items():
        tries = f" {retries(rule)} " if rule.retries else " "
        rows.append(f"| {category} | {rule.reaction} |{tries}| {rule.why} |")
    assert table("docs/failures.md", "policy") == rows


def test_the_table_of_what_happens_to_the_run_is_the_policy() -> None:
    """docs/failures.md repeats orchestrator/state/failure_policy.py here too; paste what this test expected."""
    rows = ["| event | what is done |", "|---|---|", *(f"| {event} | {done} |" for event, done in RUN.items())]
    assert table("docs/failures.md", "run") == rows


def test_the_table_of_models_is_the_catalogue() -> None:
    """docs/models.md repeats configs/models.yaml; after a change of it, paste what this test expected."""
    rows = ["| model | type | parameters | input |", "|---|---|---|---|"]
    for model in catalogue.load().models:
        size = "" if model.sizes is None else f"{model.sizes.default} {model.sizes.unit}"
        if model.generation is not None:
            size += f"; generation {model.generation.prompt_tokens} + {model.generation.new_tokens}"
        if not is_probe(model):
            rows.append(f"| {model.name} | {model.type} | {model.parameters / 1e6:.1f} M | {size} |")
    assert table("docs/models.md", "models") == rows


def test_the_table_of_operators_is_the_catalogue() -> None:
    """docs/operators.md has a row for each operator of configs/operators.yaml, with its category."""
    rows = [tuple(line.strip("| ").split(" | ")[:2]) for line in table("docs/operators.md", "operators")[2:]]
    assert rows == [(one.name, one.category) for one in operators.load().values()]


def test_every_column_of_a_burn_in_is_explained() -> None:
    """docs/burn-in.md has a row for each column of its table, in their order."""
    rows = table("docs/burn-in.md", "columns")[2:]
    assert tuple(line.split(" | ")[0].removeprefix("| ") for line in rows) == COLUMNS


@pytest.mark.parametrize("page", ["README.md", "docs/failures.md"])
def test_the_table_of_exit_codes_is_the_code(page: str) -> None:
    """Wherever exit codes are listed, they are those of protocol/exit_codes.py."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [code for code, words in MEANING.items() if f"| {int(code)} | {words} |" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file or heading of the repository resolves."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = []
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        if not file.exists() or (anchor and anchor not in headings(file)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_lines_of_prose_have_at_most_120_characters(page: Path) -> None:
    """Only tables, output that is quoted, addresses and images are longer."""
    text = re.sub(r"<!-- shown: .*?<!-- shown: end -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    prose = [line for line in text.splitlines() if not re.match(r"\||!\[|\S*https?://\S*$", line.strip())]
    assert [line for line in prose if len(line) > 120] == []


def headings(page: Path) -> set[str]:
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def test_both_readmes_have_the_same_commands_and_tables() -> None:
    """README.zh-CN.md differs in its prose alone: code, commands, codes and places are equal, row by row."""
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md")]
    english, chinese = ([line for line in page.splitlines() if line.startswith("    ")] for page in pages)
    assert english == chinese
    for name in ("commands", "codes", "files"):
        rows = [[line.split(" | ")[0] for line in table(page, name)[2:]] for page in ("README.md", "README.zh-CN.md")]
        assert rows[0] == rows[1] != []
    links = [sorted(re.findall(r"\]\((docs/[^)]+)\)", page)) for page in pages]
    assert links[0] == links[1]


def test_readme_begins_with_the_two_commands() -> None:
    """The first two commands of the README are how to begin: make bench and make test."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    first = [line.split()[:2] for line in lines if line.startswith("    ")][:2]
    assert first == [["make", "bench"], ["make", "test"]]

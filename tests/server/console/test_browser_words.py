"""No page of the console advises a command line."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ft_assets
import ft_resources
from ft_assets.server.console.browser_words import _TERMINAL, in_browser
from ft_assets.server.console.rendering import FOLDER

# Of the command line itself, and of what only an operator's programs read.
_ELSEWHERE = {"cli", "demo", "remote", "kubernetes"}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Correct the row.", "Correct the row."),
        ("Add it first: ft dataset add FILE", "Add it first. Upload the file under Files."),
        (
            "Read its report with `ft dataset report X`; then approve it with `ft dataset approve X --note TEXT`, or "
            "add a corrected version.",
            "Open it under Datasets.",
        ),
        (
            "Wait until it ends (ft rollout status X), or cancel it: ft rollout cancel X --reason …",
            "Wait until it ends, or cancel it. Open the line under Lines.",
        ),
        ("ft run acme.a.v1 tiny.v1", "Start a new job."),
        (
            "a step failed; open its run in the UI, or: ft logs X",
            "a step failed; open its run in the UI. Open the job under Jobs.",
        ),
        ("See them all with: ft status", "See them all. Open the job under Jobs."),
        ("Set FT_SERVERS.", "Ask the platform's operator."),
        (
            'the base hub:a/b is not served (tenants.yaml: served_bases). Write in tenants.yaml: served_bases: ["x"]',
            "the base hub:a/b is not served. Ask the platform's operator.",
        ),
        ("Add a stricter gate (--gate), such as x > 1.", "Add a stricter gate, such as x > 1."),
        (
            "Correct the row, or leave it out: put this into dataset.yaml, and give it with `--policy dataset.yaml`:\n"
            "on_bad_row: drop",
            "Correct the row, or leave it out. Choose how the rows are read at the first step of a new job, or upload "
            "a corrected file.",
        ),
        (
            "More text helps, too. Set text.chunk_characters in dataset.yaml.",
            "More text helps, too. "
            "Choose how the rows are read at the first step of a new job, or upload a corrected file.",
        ),
    ],
)
def test_advice_for_a_terminal_becomes_advice_for_a_browser(said: str, shown: str) -> None:
    assert in_browser(said) == shown


def texts() -> Iterator[tuple[str, str]]:
    """Every text in the code that names a command, with its file."""
    for package in (ft_assets, ft_resources):
        root = Path(package.__file__ or "").parent
        for path in sorted(root.rglob("*.py")):
            if _ELSEWHERE & set(path.relative_to(root).parts):
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
            for node in ast.walk(tree):
                if isinstance(node, ast.JoinedStr):
                    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
                    text = node.value
                else:
                    continue
                if _TERMINAL.search(text):
                    yield path.name, text


def test_every_text_of_the_platform_that_names_a_command_can_be_shown() -> None:
    found = [(file, text) for file, text in texts() if text.strip() and _TERMINAL.search(in_browser(text))]
    assert found == []


def test_no_page_names_a_command_itself() -> None:
    for path in [*FOLDER.rglob("*.html"), *FOLDER.rglob("*.js")]:
        assert not _TERMINAL.search(path.read_text(encoding="utf-8")), path

"""docs/start/cluster.md without running it: tests/e2e/test_cluster_guide.py does that."""

import re

from docs.site.build import ROOT
from tests.e2e.cluster_guide.guide import ELSEWHERE, commands, elsewhere, steps

BLOCKS = [block for blocks in steps().values() for block in blocks]


def test_the_steps_are_numbered_and_each_has_commands() -> None:
    assert list(steps()) == list(range(15))
    assert all(blocks for blocks in steps().values())


def test_every_file_of_this_repository_that_a_command_names_is_there() -> None:
    named = {path for block in BLOCKS for path in re.findall(r"(?<![\w./$-])((?:k8s|ft_assets)/[\w./{},*-]+)", block)}
    whole = {each for path in named for each in _expanded(path)}
    assert len(whole) > 10
    assert [path for path in whole if not list(ROOT.glob(path.rstrip("/")))] == []


def _expanded(path: str) -> list[str]:
    """``a/{b,c}`` as the shell expands it."""
    found = re.fullmatch(r"(.*)\{(.+)\}(.*)", path)
    return [f"{found[1]}{each}{found[3]}" for each in found[2].split(",")] if found else [path]


def test_what_is_not_run_by_a_test_is_on_the_page() -> None:
    known = {elsewhere(command) for block in BLOCKS for command in commands(block)}
    assert set(ELSEWHERE) == known - {""}

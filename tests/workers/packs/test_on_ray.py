"""Tokenizing on two Ray nodes that share no disk: the pack's bytes are those of this machine, whatever dies."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.packs.documents import examples, tokenize
from ft_resources.errors import BadData
from ft_resources.worker_context import WorkResult
from tests.workers.packs.conftest import Workbench, chat
from tests.workers.ray_nodes import Nodes, two_nodes

pytestmark = pytest.mark.subprocess
TRAIN = [chat(f"what is {n} plus one?", f"it is {n + 1}") for n in range(400)]
VALIDATION = [chat("where is the fox?", "in the house", "and the dog?", "it is brown")]
_PREPARE = tokenize._prepare


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with two_nodes(tmp_path_factory.getbasetemp()) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenize, "_SMALL_BYTES", 0)
    monkeypatch.setattr(examples, "_BATCH", 3)
    monkeypatch.setenv("FT_PACK_PROCESSES", "1")


def _bytes(result: WorkResult) -> dict[str, bytes]:
    folder = result.folder
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("form", ["chat", "text"])
def test_two_nodes_and_this_machine_give_the_same_pack(
    workbench: Workbench, nodes: Nodes, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    rows: list[dict[str, Any]] = [{"messages": each} for each in TRAIN]
    if form == "text":
        rows = [{"text": f"The fox has {n} houses. " * (n % 9 + 1)} for n in range(300)]
    dataset = workbench.dataset_of({"train": rows[:-5], "validation": rows[-5:]})
    here = workbench.build(dataset, form=form, overlong="split" if form == "text" else "reject")
    monkeypatch.setenv("FT_PACK_ENGINE", "ray")
    for _ in range(5):
        there = workbench.build(dataset, form=form, overlong="split" if form == "text" else "reject")
        assert _bytes(there) == _bytes(here)
        assert there.facts == here.facts
        if nodes.both_took_part():
            break
    # Each has the tokenizer on its own disk, without the base's weights.
    for number in (0, 1):
        (folder,) = nodes.folders(number)
        assert {path.name for path in folder.iterdir()} <= {
            *("tokenizer.json", "tokenizer_config.json"),
            *("chat_template.jinja", "config.json"),
        }


def test_a_row_that_cannot_be_packed_is_named_across_nodes(
    workbench: Workbench, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = (
        "{% for m in messages %}{% if m.content|length > 99 %}{{ raise_exception('too long') }}{% endif %}"
        "{% generation %}{{ m.content }}<|end|>{% endgeneration %}{% endfor %}"
    )
    monkeypatch.setenv("FT_PACK_ENGINE", "ray")
    with pytest.raises(BadData, match="too long") as caught:
        workbench.build(workbench.dataset([*TRAIN[:40], chat("forbidden " * 12, "yes")]), chat_template=template)
    assert "row 41 of the upload" in caught.value.where


def test_a_pack_whose_workers_were_killed_has_the_same_bytes(
    workbench: Workbench, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = workbench.dataset(TRAIN, VALIDATION)
    here = workbench.build(dataset)
    monkeypatch.setenv("FT_PACK_ENGINE", "ray")
    monkeypatch.setattr(tokenize, "_prepare", _die_once)
    assert _bytes(workbench.build(dataset)) == _bytes(here)
    assert any((folder / "died").exists() for folder in nodes.scratch)


def _die_once(task: tokenize.PrepareTask) -> Any:
    """``_prepare``, but once on each node that it runs on it kills its process."""
    marker = Path(tempfile.gettempdir(), "died")
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _PREPARE(task)

"""Suites of programs: what is registered, what counts, and that nothing is run where it is not allowed."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets.workers.evals import stop_sequences as until
from ft_assets.workers.evals.model import LoadedModel, load_model
from ft_assets.workers.evals.runner import score_loaded
from ft_assets.workers.suites.kinds import code, sandbox
from ft_assets.workers.suites.kinds.sandbox import SandboxUnavailable
from ft_assets.workers.suites.suites import add_suite, read_task, scored_texts, suite_files
from ft_resources.errors import BadRecipe
from ft_resources.store_marker import open_store
from tests.fake_base import make_fake_base

KEY = "programs.v1"
ITEM = {
    "task_id": "P/0",
    "prompt": "def double(x):\n",
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(-1) == -2\n",
}


def write_code(folder: Path, *items: dict[str, Any], **task: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    settings = {"kind": "code", "file": "items.jsonl", "max_new_tokens": 64, "limits": {"timeout_s": 2.0}, **task}
    (folder / "task.yaml").write_text(yaml.safe_dump(settings))
    return folder


def programs(folder: Path, count: int, **task: Any) -> Path:
    return write_code(
        folder, *({**ITEM, "task_id": f"P/{n}", "prompt": f"# {n}\n{ITEM['prompt']}"} for n in range(count))
    )


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedModel:
    return load_model(make_fake_base(tmp_path / "base"))


def complete(monkeypatch: pytest.MonkeyPatch, *completions: str) -> None:
    """From here on the model completes item n by ``completions[n]``."""

    def generate(loaded: LoadedModel, prompts: list[list[int]], longest: int, ends: Any, stop: Any) -> list[list[int]]:
        texts = [loaded.tokenizer.decode(ids) for ids in prompts]
        return [loaded.tokenizer(completions[int(text[2 : text.index("\n")])])["input_ids"] for text in texts]

    monkeypatch.setattr(until, "generate", generate)


def score(loaded: LoadedModel, folder: Path, limit: int | None = None) -> Any:
    return score_loaded(loaded, {KEY: folder}, seed=1, limit=limit, progress=lambda *_: None)[KEY]


def test_items_are_registered_unrun_and_kept_from_training(tmp_path: Path) -> None:
    # Registering must not run what it reads.
    mark = tmp_path / "ran"
    item = {**ITEM, "test": f"open({str(mark)!r}, 'w')\n{ITEM['test']}"}
    folder = write_code(tmp_path / "programs", item)
    assert add_suite(open_store(str(tmp_path / "store"), create=True), folder, KEY, "ann").items == 1
    assert not mark.exists()
    assert scored_texts(folder) == [item["prompt"], item["test"]]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"test": "def check(candidate:"}, "test is not Python (SyntaxError)"),
        ({"test": "assert True"}, "test defines no function check"),
        ({"entry_point": "double(1); import os"}, "entry_point is not a name"),
        ({"prompt": ""}, "prompt is empty"),
        ({"task_id": "P/0"}, "no unique id"),
    ],
)
def test_items_without_usable_tests_are_refused_with_their_line(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    folder = write_code(tmp_path / "programs", ITEM, {**ITEM, "task_id": "P/1", **changes})
    with pytest.raises(BadRecipe) as caught:
        add_suite(open_store(str(tmp_path / "store"), create=True), folder, KEY, "ann")
    assert expected in str(caught.value)
    assert "line 2" in str(caught.value)


def test_whole_programs_have_statements_for_tests_and_text_before_them_is_not_asked(tmp_path: Path) -> None:
    item = {"task_id": 1, "question": "Double x.", "prompt": "Task: Double x.\n", "test": "assert double(2) == 4"}
    folder = write_code(tmp_path / "programs", item, answer="program", before="before.txt")
    (folder / "before.txt").write_bytes("Ä: an example\r\n\n".encode())
    assert add_suite(open_store(str(tmp_path / "store"), create=True), folder, KEY, "ann").items == 1
    assert scored_texts(folder) == ["Double x.", "assert double(2) == 4"]
    task: Any = read_task(folder / "task.yaml")
    (read,) = code.read(task, suite_files(folder), "here")
    assert read.before == "Ä: an example\r\n\n"
    assert (read.program("def double(x): …"), read.tests, read.names) == ("def double(x): …", item["test"], ["double"])


@pytest.mark.parametrize(
    ("before", "expected"),
    [("other.txt", "'other.txt' is not a text file"), ("items.jsonl", "not a text file"), ("bad.txt", "not UTF-8")],
)
def test_text_before_that_cannot_be_read_is_refused(tmp_path: Path, before: str, expected: str) -> None:
    folder = write_code(tmp_path / "programs", ITEM, before=before)
    (folder / "bad.txt").write_bytes(b"\xff")
    with pytest.raises(BadRecipe, match=expected):
        add_suite(open_store(str(tmp_path / "store"), create=True), folder, KEY, "ann")


@pytest.mark.training
def test_a_platform_that_does_not_allow_programs_refuses_the_suite_before_anything_is_written(
    loaded: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FT_RUN_CODE", raising=False)
    monkeypatch.setattr(until, "generate", lambda *_: pytest.fail("the model was asked"))
    with pytest.raises(SandboxUnavailable, match="FT_RUN_CODE"):
        score(loaded, programs(tmp_path / "programs", 2))


@pytest.mark.training
@pytest.mark.sandbox
def test_what_passes_its_tests_counts_and_nothing_else(
    loaded: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_RUN_CODE", "sandbox")
    complete(
        monkeypatch,
        "    return 2 * x\n",
        "    return x + 2\n",
        "    while True: pass\n",
        "    import os; os._exit(0)\n",
        "    return x +\n",
        # What follows the function is cut off, as its authors do.
        "    return x + x\n\nprint(1 / 0)\n",
    )
    result = score(loaded, programs(tmp_path / "programs", 6))
    assert (result.metric, result.n) == ("pass@1", 6)
    assert result.correct == (1.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    assert result.also == {"timeouts": pytest.approx(1 / 6)}
    assert result.item_ids[0] == "P/0"
    assert result.said[5].answer == "    return x + x\n"


@pytest.mark.training
def test_a_sandbox_that_goes_away_ends_the_evaluation_and_is_no_zero(
    loaded: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_RUN_CODE", "sandbox")
    monkeypatch.setattr(sandbox, "_probe", lambda: None)
    broken = tmp_path / "broken.py"
    broken.write_text('print(\'{"state": "unavailable", "what": "mounts"}\')')
    monkeypatch.setattr(sandbox, "_SCRIPT", broken)
    complete(monkeypatch, "    return 2 * x\n")
    with pytest.raises(SandboxUnavailable, match="missing: mounts"):
        score(loaded, programs(tmp_path / "programs", 1))

"""A first try without a recipe: what its keys and its method follow from."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets.api import next_version, register_recipe, submit
from ft_assets.control.recipes.load import load_recipe
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.registry.first_try import first_try, name_of
from ft_assets.records.submissions import Submission
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.recipe.ready_templates import PLAIN_TEMPLATE
from ft_resources.errors import BadData
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.fake_base import make_fake_base
from tests.workers.datasets.conftest import prose


def row(form: str, number: int) -> dict[str, Any]:
    answer = f"thing {number} is {number * 7 % 100}"
    rows: dict[str, dict[str, Any]] = {
        "chat": {
            "messages": [{"role": "user", "content": f"which is {number}?"}, {"role": "assistant", "content": answer}]
        },
        "preference": {"prompt": f"which of {number}?", "chosen": answer, "rejected": "I do not know that"},
        "unpaired": {"prompt": f"which of {number}?", "completion": answer, "label": bool(number % 2)},
        "text": {"text": f"{answer}. " * 20},
    }
    return rows[form]


def rows_file(folder: Path, form: str, rows: int = 120) -> Path:
    path = folder / "My_Rows.jsonl"
    path.write_text("".join(json.dumps(row(form, number)) + "\n" for number in range(rows)))
    return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """With a base beside it."""
    make_fake_base(tmp_path / "base")
    return open_store(str(tmp_path / "store"), create=True)


def tried(folder: Path, store: Store, form: str = "chat", rows: int = 120) -> Submission:
    return submit(rows_file(folder, form, rows), base=str(folder / "base"), store=store).submission


@pytest.mark.parametrize(
    ("form", "method"), [("chat", "sft"), ("preference", "dpo"), ("unpaired", "kto"), ("text", "cpt")]
)
def test_the_method_follows_from_the_rows_and_asking_again_is_the_same_pair(
    store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, method: str
) -> None:
    monkeypatch.delenv("FT_TENANT", raising=False)
    asked = tried(tmp_path, store, form)
    assert asked.dataset == "local.my-rows.v1"
    assert asked.recipe.startswith(f"local.my-rows-{method}-")
    recipe = get_recipe(store, asked.recipe).recipe
    assert (recipe.method, recipe.gates, recipe.evaluation.suites) == (method, "none", ())
    assert recipe.training.learning_rate == "auto"
    again = submit(rows_file(tmp_path, form), base=f"folder:{tmp_path}/base", store=store).submission
    assert (again.dataset, again.recipe) == (asked.dataset, asked.recipe)
    changed = tried(tmp_path, store, form, 130)
    assert (changed.dataset, changed.recipe) == (asked.dataset.replace(".v1", ".v2"), asked.recipe)
    monkeypatch.setenv("FT_TENANT", "acme")
    mine = tried(tmp_path, store, form)
    assert mine.dataset == asked.dataset.replace("local.", "acme.")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("rows.jsonl", "rows"),
        ("/data/My Rows (2).csv.gz", "my-rows-2"),
        ("hub:org/Some_Data@main#train", "some-data"),
        ("x" * 60 + ".json", "x" * 40),
        ("数据.jsonl", "rows-33fdce68"),
    ],
)
def test_a_dataset_is_named_after_its_file(source: str, name: str) -> None:
    assert name_of(source) == name


def test_another_base_form_or_a_gpu_is_another_recipe() -> None:
    key = DatasetKey.parse("acme.rows.v1")
    keys = {first_try(form, "hub:a/b@main", key, locked).key for form in ("chat", "text") for locked in ("one", "two")}
    assert len(keys) == 4
    with_gpu = first_try("chat", "hub:a/b@main", key, "one", 1)
    assert (with_gpu.hardware.most_gpus, with_gpu.key in keys) == (1, False)
    longest = DatasetKey.parse(f"acme.{'x' * 40}.v1")
    assert first_try("unpaired_preference", "hub:a/b@main", longest, "one").recipe_key.name.startswith("xxx")


@pytest.mark.parametrize("here", [0, 1])
def test_a_first_try_trains_on_a_gpu_where_there_is_one(store, tmp_path, monkeypatch, here) -> None:
    monkeypatch.setattr("ft_resources.launchers.choice.local_gpus", lambda: here)
    asked = tried(tmp_path, store)
    assert get_recipe(store, asked.recipe).recipe.hardware.most_gpus == here


def test_a_recipe_is_written_out_as_its_next_version_which_can_be_registered(store, tmp_path: Path) -> None:
    asked = tried(tmp_path, store)
    text = next_version(asked.recipe, store=store)
    content = yaml.safe_load(text)
    assert (content["key"], content["gates"]) == (asked.recipe.replace(".v1", ".v2"), "none")
    assert "set gates" in text
    file = tmp_path / "next.yaml"
    file.write_text(yaml.safe_dump({**content, "training": {"epochs": 2}}))
    registered = register_recipe(file, store=store, orchestrator=NobodyLooks())
    assert (registered.key, registered.created) == (content["key"], True)
    assert registered.lock.digest == get_recipe(store, asked.recipe).lock.digest


def test_rows_that_cannot_be_used_are_told_before_what_the_base_lacks(store, tmp_path: Path) -> None:
    base = make_fake_base(tmp_path / "base", with_template=False)
    rows = tmp_path / "März 2025.csv"
    rows.write_text("Anfrage,Antwort,Notiz\n" + "".join(f"Was ist {n}?,,Nichts\n" for n in range(120)))
    with pytest.raises(BadData) as error:
        submit(rows, base=str(base), store=store)
    assert error.value.where.startswith("März 2025.csv")
    assert "The columns are Anfrage, Antwort, Notiz." in error.value.remedy


_KINDS = ("billing", "shipping", "returns", "login", "bugs", "sales", "legal", "other")


def talk(number: int) -> list[str]:
    """A question, an answer, and on every third conversation the user's thanks."""
    said = [f"Where is order {number}?", f"Order {number} is on its way."]
    return [*said, "Thanks!"] if number % 3 == 0 else said


def as_turns(number: int, role: str, text: str, speakers: tuple[str, str]) -> list[dict[str, str]]:
    return [{role: speakers[place % 2], text: said} for place, said in enumerate(talk(number))]


@pytest.mark.parametrize(
    ("file", "made", "method", "told"),
    [
        (
            "tickets.csv",
            lambda n: {"subject": f"S {n}", "body": f"The thing {n} is broken.", "queue": _KINDS[n % 8]},
            "sft",
            ["fields: {prompt: [subject, body], completion: queue}"],
        ),
        (
            "labelled.jsonl",
            lambda n: {"text": f"The thing {n} is broken.", "label": _KINDS[n % 8]},
            "sft",
            ["fields: {prompt: text, completion: label}"],
        ),
        (
            "numbered.jsonl",
            lambda n: {"label": n % 8, "text": f"The thing {n} is broken."},
            "sft",
            ["fields: {prompt: text, completion: label}"],
        ),
        (
            "sharegpt.json",
            lambda n: {"id": f"x{n}", "conversations": as_turns(n, "from", "value", ("human", "gpt"))},
            "sft",
            ["40 conversations end with a turn of the user, which is left out"],
        ),
        (
            "export.jsonl",
            lambda n: {
                "dialog": [{**turn, "at": n} for turn in as_turns(n, "speaker", "body", ("customer", "agent"))],
                "id": n,
            },
            "sft",
            [
                "roles: {customer: user, agent: assistant}, ignore: [at]}\nNot used: id, at.",
                "40 conversations end with a turn of the user",
            ],
        ),
        (
            "thumbs.csv",
            lambda n: {"question": f"Where is {n}?", "reply": f"{n} is there.", "thumb": ("up", "down")[n % 2]},
            "kto",
            ["labels: {liked: [up], disliked: [down]}"],
        ),
    ],
)
def test_one_command_reads_what_people_have_and_tells_how(
    store, tmp_path: Path, file: str, made: Callable[[int], dict[str, Any]], method: str, told: list[str]
) -> None:
    rows = [made(number) for number in range(120)]
    path = tmp_path / file
    if path.suffix == ".csv":
        with path.open("w", newline="") as out:
            writer = csv.DictWriter(out, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text(json.dumps(rows) if path.suffix == ".json" else "\n".join(map(json.dumps, rows)) + "\n")
    asked = submit(path, base=str(tmp_path / "base"), store=store)
    assert get_recipe(store, asked.submission.recipe).recipe.method == method
    for warning, words in zip(asked.warnings, told, strict=True):
        assert words in warning


@pytest.mark.parametrize(
    ("column", "role", "text", "speakers", "line"),
    [
        ("conversations", "from", "value", ("human", "gpt"), "{on_bad_row: drop, max_dropped_share: 0.1}"),
        ("dialog", "who", "said", ("customer", "agent"), "on_bad_row: drop\nmax_dropped_share: 0.1"),
    ],
)
def test_the_line_to_paste_leaves_out_all_bad_rows_at_once(
    store, tmp_path: Path, column: str, role: str, text: str, speakers: tuple[str, str], line: str
) -> None:
    # Some begin with what nobody asked for.
    rows = [{column: as_turns(n, role, text, speakers)[n % 10 == 9 :]} for n in range(200)]
    path = tmp_path / "talks.json"
    path.write_text(json.dumps(rows))
    with pytest.raises(BadData) as error:
        submit(path, base=str(tmp_path / "base"), store=store)
    assert "(19 more bad rows" in error.value.what
    assert "leave out all 20 bad ones (10.0%)" in error.value.remedy
    policy = tmp_path / "dataset.yaml"
    policy.write_text(error.value.remedy.partition("\n")[2])
    assert policy.read_text() == line
    assert submit(path, base=str(tmp_path / "base"), policy=policy, store=store).created


def test_a_base_without_a_chat_template_gets_the_plain_one(store, tmp_path: Path) -> None:
    make_fake_base(tmp_path / "base", with_template=False)
    asked = tried(tmp_path, store)
    assert get_recipe(store, asked.recipe).recipe.chat_template == PLAIN_TEMPLATE
    file = tmp_path / "next.yaml"
    file.write_text(next_version(asked.recipe, store=store))
    assert yaml.safe_load(file.read_text())["chat_template"] == "plain"
    assert load_recipe(file).chat_template == PLAIN_TEMPLATE
    texts = tried(tmp_path, store, "text")
    assert get_recipe(store, texts.recipe).recipe.chat_template is None


def test_a_first_try_takes_a_folder_of_documents(store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FT_TENANT", raising=False)
    make_fake_base(tmp_path / "base", with_template=False)
    documents = tmp_path / "handbook"
    documents.mkdir()
    for name in ("a.md", "b.md"):
        (documents / name).write_text("".join(f"# {name} {n}\n\n{prose((name, n), 300)}\n\n" for n in range(60)))
    monkeypatch.chdir(tmp_path)
    asked = submit("handbook", base="base", store=store).submission
    assert asked.dataset == "local.handbook.v1"
    assert asked.recipe.startswith("local.handbook-cpt-")


class NobodyLooks:
    """An orchestrator that shows nothing."""

    def show_keys(self, **_: str) -> None: ...

"""A base, a dataset and a build, each made in milliseconds and without Dagster."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ft_assets.settings.code_versions import PACK_TOOLS
from ft_assets.workers.datasets.columns import with_weight
from ft_assets.workers.datasets.writing import COLUMNS
from ft_assets.workers.packs.build import build_pack
from ft_assets.workers.packs.doctor import examine
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.isolation.proof import examine_isolation
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.tokenizers.chat_template import load_template
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import digest
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest, WorkSpec
from ft_resources.worker_context import WorkContext, WorkResult
from tests.fake_base import make_fake_base
from tests.made import spec_of

Conversation = list[dict[str, str]]


def chat(*contents: str, system: str | None = None) -> Conversation:
    """A conversation whose turns alternate, the user first."""
    opening = [{"role": "system", "content": system}] if system is not None else []
    roles = ["user", "assistant"] * len(contents)
    return opening + [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]


def example_id(example: Conversation | dict[str, Any]) -> str:
    return digest(example)


@pytest.fixture
def base_folder(tmp_path: Path) -> Path:
    return make_fake_base(tmp_path / "base")


@pytest.fixture
def tokenizer(base_folder: Path) -> ChatTokenizer:
    return ChatTokenizer.load(base_folder)


@pytest.fixture
def template(base_folder: Path, tokenizer: ChatTokenizer) -> ChatTemplate:
    return load_template(base_folder, tokenizer, None)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base that no test changes."""
    return make_fake_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def base_tokenizer(base: Path) -> ChatTokenizer:
    return ChatTokenizer.load(base)


@dataclass
class Workbench:
    """Publishes a base and datasets into a store and builds packs of them."""

    folder: Path
    base_folder: Path
    builds: int = field(default=0)

    def __post_init__(self) -> None:
        self.store = open_store(str(self.folder / "store"), create=True)
        self.artifacts = Artifacts(self.store)

    def base(self) -> Artifact:
        files = {path.name: path.read_bytes() for path in self.base_folder.iterdir()}
        return self._publish("base_model", files)

    def dataset(
        self,
        train: Sequence[Conversation],
        validation: Sequence[Conversation] = (),
        holdout: Sequence[Conversation] = (),
    ) -> Artifact:
        """Rows are numbered 1, 2, … through the training split, then validation, then holdout."""
        splits = {"train": train, "validation": validation, "holdout": holdout}
        return self.dataset_of({name: [{"messages": each} for each in rows] for name, rows in splits.items()})

    def dataset_of(self, splits: dict[str, list[dict[str, Any]]]) -> Artifact:
        """Rows of any form (``COLUMNS`` as far as they are given); splits that are not named are empty."""
        files, row = {}, 1
        for split in ("train", "validation", "holdout"):
            rows = splits.get(split, [])
            path = self.folder / "split.parquet"
            pq.write_table(_table(rows, row), path)
            files[f"{split}.parquet"] = path.read_bytes()
            row += len(rows)
        return self._publish("dataset", files)

    def build(
        self,
        dataset: Artifact,
        *,
        max_length: int = 64,
        learn: str = "all_assistant",
        overlong: str = "reject",
        chat_template: str | None = None,
        seed: int = 17,
        form: str = "chat",
    ) -> WorkResult:
        """The work function's own result, in a scratch folder of its own."""
        self.builds += 1
        packing = {"max_length": max_length, "learn": learn, "overlong": overlong}
        settings = {"packing": packing, "chat_template": chat_template, "seed": seed, "form": form}
        spec = self._spec(dataset, {**settings, "tools": PACK_TOOLS})
        return build_pack(WorkContext(spec, self.store, self.folder / f"scratch{self.builds}"))

    def publish_pack(self, dataset: Artifact, **settings: Any) -> Artifact:
        """A built pack, published as the worker would."""
        result = self.build(dataset, **settings)
        return self.publish_folder("token_pack", result.folder, facts=result.facts)

    def publish_folder(self, asset: str, folder: Path, facts: dict[str, Any] | None = None) -> Artifact:
        identity = {
            "asset": asset,
            "files": {str(p): p.read_bytes().hex() for p in folder.rglob("*") if p.is_file()},
        }
        address = Address(tenant="acme", asset=asset, fingerprint=digest(identity))
        return self.artifacts.publish(address, folder, writer="w1", identity=identity, facts=facts, actor="test")

    def _publish(self, asset: str, files: dict[str, bytes]) -> Artifact:
        folder = self.folder / f"publish-{digest({name: data.hex() for name, data in files.items()})[:12]}"
        folder.mkdir(exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        return self.publish_folder(asset, folder)

    def _spec(self, dataset: Artifact, params: dict[str, Any]) -> WorkSpec:
        request = WorkRequest(
            asset="token_pack",
            tenant="acme",
            code_version="1",
            inputs={"dataset": dataset.ref, "base": self.base().ref},
            params=params,
            label="acme.chats.v1|tiny.v1",
        )
        return spec_of(self.store, request)


@pytest.fixture
def workbench(tmp_path: Path, base_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    monkeypatch.setattr(examine, "examine_isolation", _examined_once)
    return Workbench(tmp_path, base_folder)


_EXAMINED: dict[bytes, dict[str, Any]] = {}


def _examined_once(config: Path, pack: Pack) -> dict[str, Any]:
    """``examine_isolation`` of a base's first pack, as it is most of a build; ``isolation`` tests it on others."""
    key = config.read_bytes()
    if key not in _EXAMINED:
        _EXAMINED[key] = examine_isolation(config, pack)
    return _EXAMINED[key]


def edit_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value))


def _table(rows: Sequence[dict[str, Any]], first_row: int) -> pa.Table:
    numbered = [
        {
            **row,
            "id": example_id(row["messages"] if set(row) == {"messages"} else row),
            "file": "rows.jsonl",
            "row": first_row + number,
        }
        for number, row in enumerate(rows)
    ]
    schema = with_weight(COLUMNS, weighed=any("weight" in row for row in rows))
    return pa.Table.from_pylist(numbered, schema=schema)

"""The two assets in Dagster: what they refuse, and what their pages show."""

import re

import dagster as dg
import pytest

from ft_assets.api import report_file
from ft_assets.control import identity
from ft_assets.graph.assets.datasets import dataset, raw_dataset
from ft_assets.settings.dataset.policy import ContaminationSettings, DatasetPolicy, SplitSettings
from ft_resources.artifacts import Address, Artifacts
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.store import Store
from tests.untold import untold
from tests.workers.datasets.conftest import Add, WriteRows, pair


def materialize(store: Store, key: str, assets: list[dg.AssetsDefinition]) -> dg.ExecuteInProcessResult:
    with dg.DagsterInstance.ephemeral() as instance, untold():
        instance.add_dynamic_partitions("dataset", [key])
        return dg.materialize(
            [raw_dataset, dataset],
            selection=[asset.key for asset in assets],
            partition_key=key,
            instance=instance,
            resources={"store": StoreResource(url=store.url), "launcher": LauncherResource()},
        )


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, dg.MetadataValue]:
    (event,) = result.asset_materializations_for_node(asset)
    return dict(event.metadata)


def test_raw_dataset_verifies_and_shows_what_was_uploaded(add: Add, write: WriteRows, store: Store) -> None:
    add(write([pair(number) for number in range(150)]))
    result = materialize(store, "acme.facts.v1", [raw_dataset])
    shown = metadata(result, "raw_dataset")
    assert shown["dagster/row_count"].value == 150
    assert shown["uploaded_by"].value == "tester"
    policy = DatasetPolicy(contamination=ContaminationSettings(suites=()))
    assert shown["policy"].value == policy.model_dump(mode="json")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("acme.facts.v2", "there is no dataset version 'acme.facts.v2'"),
        ("Acme.facts.v1", "'Acme' cannot be part of a dataset key"),
        ("acme.fa|cts.v1", "'fa|cts' cannot be part of a dataset key"),
        ("acme.facts", "a dataset key has the form tenant.name.vN"),
        ("shared.facts.v1", "there is no dataset version 'shared.facts.v1'"),
    ],
)
def test_raw_dataset_refuses_a_key_that_the_ui_let_in(store: Store, key: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        materialize(store, key, [raw_dataset])
    assert error.value.what == message
    assert error.value.remedy


def test_raw_dataset_refuses_an_upload_with_a_flipped_byte(add: Add, write: WriteRows, store: Store) -> None:
    version = add(write([pair(number) for number in range(150)]))
    artifact = Artifacts(store).get(version.address)
    path = store.local_path(artifact.location("upload/data.jsonl"))
    assert path is not None
    path.write_bytes(path.read_bytes().replace(b"What", b"Whut", 1))
    with pytest.raises(CorruptArtifact, match=r"upload/data\.jsonl of .* does not match its sha256"):
        materialize(store, "acme.facts.v1", [raw_dataset])


@pytest.mark.subprocess
def test_dataset_is_made_by_a_worker_and_shows_numbers_but_no_text(add: Add, write: WriteRows, store: Store) -> None:
    rows = [*[pair(number) for number in range(200)], pair(0), b"x"]
    add(write(rows), DatasetPolicy(on_bad_row="drop"))
    shown = metadata(materialize(store, "acme.facts.v1", [raw_dataset, dataset]), "dataset")
    assert shown["dagster/row_count"].value == 200
    assert sum(shown[f"rows_{split}"].value for split in ("train", "validation", "holdout")) == 200
    assert "| the same text as an earlier row | 1 |" in str(shown["left_out"].value)
    assert "data:image/svg+xml;base64," in str(shown["lengths"].value)
    _, address, name = re.fullmatch("(http://127.0.0.1:3001)/(.*)/report/(.*)", str(shown["report"].value)).groups()
    assert report_file(address, name, store=store).data.startswith(b"<!doctype html>")
    assert not any("It is the number" in str(value.value) for value in shown.values())


@pytest.mark.subprocess
def test_a_later_version_is_made_with_what_the_one_before_held_out_which_is_made_first(
    add: Add, write: WriteRows, store: Store
) -> None:
    rows = [pair(number) for number in range(200)]
    add(write(rows))
    add(write(rows[::-1]), DatasetPolicy(split=SplitSettings(seed=1)))
    materialize(store, "acme.facts.v2", [raw_dataset, dataset])
    first, second = (identity.dataset(Artifacts(store), f"acme.facts.v{number}") for number in (1, 2))
    memory = Artifacts(store).get(Address.parse(second.manifest.inputs["held_out"].address))
    assert memory.read("held_out.arrow") == first.read("held_out.arrow")
    assert second.facts["rows"]["holdout"] > first.facts["rows"]["holdout"]

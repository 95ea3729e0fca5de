"""The assets ``raw_dataset`` and ``dataset``: one partition for each dataset version."""

import tempfile
from functools import partial
from pathlib import Path

import dagster as dg

from ft_assets.control import identity
from ft_assets.control.identity.approvals import note_held
from ft_assets.control.identity.held_out import settle_held_out
from ft_assets.graph.actors import acting
from ft_assets.graph.glue import common_metadata, run_work
from ft_assets.graph.partitions import GROUP, dataset_partitions
from ft_assets.graph.report_links import report_link
from ft_assets.graph.told import told
from ft_assets.settings import tags
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.workers.datasets.reporting.pictures import length_picture
from ft_assets.workers.datasets.reporting.reasons import reason_words
from ft_resources.artifacts import Artifact
from ft_resources.dagster_resources import LauncherResource, StoreResource

# The types as pyarrow names them; a test holds them to what curation writes.
_TURNS = "list<item: struct<role: string, content: string, tool_calls: string, tool_call_id: string, name: string>>"
_COLUMN_TYPES = {
    **dict.fromkeys(("id", "text", "tools", "group", "kind", "file"), "string"),
    **dict.fromkeys(("messages", "chosen", "rejected"), _TURNS),
    "row": "int64",
    "page": "int32",
}
_COLUMN_WORDS = {
    "id": "Content key in hex: equal texts have equal ids.",
    "messages": "Turns of a conversation, or a preference's prompt; empty for plain text.",
    "chosen": "For a preference: turns of the better answer.",
    "rejected": "For a preference: turns of the worse answer.",
    "text": "For plain text: the text.",
    "tools": "Tools that the conversation may call, as JSON.",
    "group": "Rows of one group are in the same split.",
    "kind": "The row's kind, as mapped by the policy, for figures by kind.",
    "file": "The upload's file; for a mixed-in row, the other dataset's key.",
    "row": "Row number in that file, from 1.",
    "page": "For a PDF: the page.",
}


@dg.asset(
    partitions_def=dataset_partitions,
    group_name=GROUP,
    kinds={"file"},
    owners=["team:ml-platform"],
    code_version=CODE_VERSIONS["raw_dataset"],
    tags={tags.WORKER: "none"},
)
@told
def raw_dataset(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult:
    """The uploaded bytes, unchanged, and their dataset policy."""
    artifact = identity.raw_dataset(store.artifacts, context.partition_key)
    with tempfile.TemporaryDirectory(prefix="ft-verify-") as scratch:
        for name in artifact.manifest.files:
            artifact.path(name, Path(scratch))
    context.log.info(f"{artifact.address}: every file matches its sha256")
    return dg.MaterializeResult(data_version=dg.DataVersion(artifact.digest), metadata=upload_metadata(artifact))


def upload_metadata(artifact: Artifact) -> dict[str, dg.MetadataValue]:
    """Rows, who added them, and the policy."""
    return {
        "dagster/row_count": dg.MetadataValue.int(artifact.facts["rows"]),
        "uploaded_by": dg.MetadataValue.text(artifact.manifest.actor),
        **({"source": dg.MetadataValue.text(source)} if (source := artifact.facts.get("source")) else {}),
        "policy": dg.MetadataValue.json(artifact.manifest.identity["params"]["policy"]),
        **common_metadata(artifact),
    }


@dg.asset(
    partitions_def=dataset_partitions,
    deps=["raw_dataset"],
    group_name=GROUP,
    kinds={"python", "parquet"},
    owners=["team:ml-platform"],
    code_version=CODE_VERSIONS["dataset"],
    tags={tags.WORKER: "cpu"},
    metadata={
        "dagster/column_schema": dg.TableSchema(
            [dg.TableColumn(name, _COLUMN_TYPES[name], words) for name, words in _COLUMN_WORDS.items()]
        )
    },
)
@told
def dataset(
    context: dg.AssetExecutionContext, store: StoreResource, launcher: LauncherResource
) -> dg.MaterializeResult:
    """Curated train, validation and holdout rows, and the validation report for the tenant."""
    make = partial(run_work, context, store, launcher)
    settle_held_out(store.artifacts, context.partition_key, make, actor=acting(context, store.store))
    artifact = make(identity.dataset_request(store.artifacts, context.partition_key))
    if held := note_held(store.artifacts, artifact, context.partition_key):
        context.log.warning(str(held))
        context.instance.add_run_tags(context.run_id, {tags.VERDICT: "held"})
    for warning in artifact.facts["warnings"]:
        context.log.warning(warning)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(artifact.digest), metadata={**_metadata(artifact), **common_metadata(artifact)}
    )


def _metadata(artifact: Artifact) -> dict[str, dg.MetadataValue]:
    """Counts, the length histogram and the report's location; never a row's text."""
    facts, rows = artifact.facts, artifact.facts["rows"]
    dropped = "\n".join(f"| {reason_words(reason)} | {count:,} |" for reason, count in sorted(facts["dropped"].items()))
    return {
        "held": dg.MetadataValue.md("\n".join(f"- {text}" for text in facts["held"]) or "no"),
        "warnings": dg.MetadataValue.md("\n".join(f"- {text}" for text in facts["warnings"]) or "none"),
        "report": report_link(artifact),
        "dagster/row_count": dg.MetadataValue.int(sum(rows.values())),
        **{f"rows_{split}": dg.MetadataValue.int(count) for split, count in rows.items()},
        "form": dg.MetadataValue.text(facts["form"]),
        "rows_uploaded": dg.MetadataValue.int(facts["rows_read"]),
        "left_out": dg.MetadataValue.md(f"| why | rows |\n|---|---:|\n{dropped}" if dropped else "nothing"),
        "lengths": dg.MetadataValue.md(length_picture("examples by length", facts["length_histogram"], "characters")),
    }

"""Datasets of the Hugging Face Hub as uploads: the rows of one split at one commit, as JSON lines."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ft_assets.workers.datasets.intake.class_names import tables_of
from ft_resources.errors import BadData, StoreUnavailable, UserError

if TYPE_CHECKING:
    # Importing it takes a second, which the code location should not spend.
    import pyarrow as pa
from ft_resources.hub import HuggingFaceHub

PREFIX = "hub:"
_REFERENCE = re.compile(r"hub:(?P<repo>[\w.-]+(?:/[\w.-]+)?)@(?P<revision>[\w./-]+)#(?P<split>[\w.-]+)")
# Returns the revision's current commit, and the split's rows at that commit in tables. As objects of Python, rows no
# longer say which of their nulls only fill a struct up.
OpenSplit = Callable[[str, str, str], tuple[str, Iterable["pa.Table"]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class HubSplit:
    """``hub:org/name@revision#split``."""

    repo: str
    revision: str
    split: str

    @classmethod
    def parse(cls, text: str) -> "HubSplit":
        """The reference in ``text``. Raises UserError that names the form."""
        match = _REFERENCE.fullmatch(text)
        if match is None or ".." in text:
            raise UserError(
                "this is not a split of a Hub dataset",
                where=text,
                remedy="Write hub:ORG/NAME@REVISION#SPLIT, such as hub:org/tickets@main#train.",
            )
        return cls(**match.groupdict())


def fetch_split(reference: str, folder: Path, *, open_split: OpenSplit | None = None) -> Path:
    """Write the split's rows to a JSON-lines file in ``folder`` that is named after repository, commit and split.

    The commit is looked up once, so the file holds that commit even if the revision moves. Raises UserError for a bad
    reference, BadData for rows that have no JSON form, StoreUnavailable if the Hub fails, which it may do at any row.
    The file appears only when it is complete.
    """
    wanted = HubSplit.parse(reference)
    commit, rows = (open_split or open_on_hub)(wanted.repo, wanted.revision, wanted.split)
    target = folder / f"{wanted.repo.replace('/', '--')}-{commit[:12]}-{wanted.split}.jsonl"
    partial = target.with_name(f".{target.name}.partial")
    try:
        with partial.open("wb") as file:
            for table in _explained(rows, reference):
                for batch in table.to_batches():
                    file.writelines(line.as_buffer() for line in _lines(batch, reference))
        partial.replace(target)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
    return target


def _lines(batch: "pa.RecordBatch", where: str) -> "pa.Array":
    from ft_assets.workers.datasets.intake.arrow_json import NoJsonForm, to_lines, without_json_form

    try:
        return to_lines(batch)
    except NoJsonForm:
        kinds = ((field.name, without_json_form(field.type)) for field in batch.schema)
        name, kind = next((name, kind) for name, kind in kinds if kind)
        raise BadData(
            f"column {name[:60]!r} holds {kind} values, which cannot be written as JSON",
            where=where,
            remedy="Use a dataset of text columns, or prepare a JSON lines file yourself.",
        ) from None


def _explained(tables: Iterable["pa.Table"], where: str) -> Iterator["pa.Table"]:
    """``tables``, whose reader streams files from the Hub, with its failures in our words."""
    iterator = iter(tables)
    while True:
        try:
            table = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            raise _hub_failed(error, where) from error
        yield table


def open_on_hub(
    repo: str, revision: str, split: str, *, token: Literal[False] | None = None
) -> tuple[str, Iterable["pa.Table"]]:
    """The split with its commit; ``token=False`` reads as nobody, so that only what is public can be read."""
    try:
        from datasets import load_dataset_builder
    except ImportError as error:
        raise UserError(
            "Hub datasets need the package `datasets`", where=repo, remedy="Install the extra `train`."
        ) from error
    where = f"hub:{repo}@{revision}#{split}"
    try:
        commit = HuggingFaceHub(kind="dataset", token=token).snapshot(repo, revision).commit
        builder = load_dataset_builder(repo, revision=commit, token=token)
        _check_own_files(builder.config.data_files or {}, commit, where)
        return commit, tables_of(builder.as_streaming_dataset(split=split))
    except Exception as error:
        raise _hub_failed(error, where) from error


def _check_own_files(files: Mapping[str, Iterable[str]], commit: str, where: str) -> None:
    """Raise BadData for files outside the repository: its README may name any path or URL, which `datasets` would read
    with this process's rights."""
    own = re.compile(rf"hf://datasets/[^@:]+@{re.escape(commit)}/(?!.*(::|\.\./))")
    if any(own.match(str(file)) is None for of_split in files.values() for file in of_split):
        raise BadData(
            "this dataset refers to files outside its repository",
            where=where,
            remedy="Use a dataset whose README refers only to files in its repository.",
        )


def _hub_failed(error: Exception, where: str) -> UserError:
    """An error of ``datasets`` in our words; it raises ValueError and FileNotFoundError for what does not exist."""
    lines = str(error).splitlines()
    if isinstance(error, UserError):
        return error
    if isinstance(error, (ValueError, FileNotFoundError)):
        what = lines[0][:300] if lines else type(error).__name__
        return BadData(what, where=where, remedy="Check repository, revision and split.")
    return StoreUnavailable(
        f"the Hub failed ({type(error).__name__}{': ' if lines else ''}{lines[0][:200] if lines else ''})",
        where=where,
        remedy="Check the network and the name, then run this again.",
    )

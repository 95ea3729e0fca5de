"""Datasets of the Hugging Face Hub as uploads: the rows of one split at one commit, as JSON lines."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ft_resources.errors import BadData, StoreUnavailable, UserError

PREFIX = "hub:"
_REFERENCE = re.compile(r"hub:(?P<repo>[\w.-]+(?:/[\w.-]+)?)@(?P<revision>[\w./-]+)#(?P<split>[\w.-]+)")
# Returns the revision's current commit, and the split's rows at that commit.
OpenSplit = Callable[[str, str, str], tuple[str, Iterable[dict[str, Any]]]]


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
        with partial.open("w", encoding="utf-8") as file:
            for number, row in enumerate(_explained(rows, reference), start=1):
                try:
                    file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
                except (TypeError, ValueError) as error:
                    raise BadData(
                        f"a column has no JSON form ({str(error).splitlines()[0][:200]})",
                        where=f"{reference}, row {number}",
                        remedy="Use a dataset of text columns, or prepare a JSON lines file yourself.",
                    ) from error
        partial.replace(target)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
    return target


def _explained(rows: Iterable[dict[str, Any]], where: str) -> Iterator[dict[str, Any]]:
    """``rows``, whose reader streams files from the Hub, with its failures in our words."""
    iterator = iter(rows)
    while True:
        try:
            row = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            raise _hub_failed(error, where) from error
        yield row


def open_on_hub(repo: str, revision: str, split: str, *, token: Literal[False] | None = None) -> tuple[str, Any]:
    """The split with its commit; ``token=False`` reads as nobody, so that only what is public can be read."""
    try:
        from datasets import load_dataset_builder
    except ImportError as error:
        raise UserError(
            "Hub datasets need the package `datasets`", where=repo, remedy="Install the extra `train`."
        ) from error
    from huggingface_hub import HfApi

    where = f"hub:{repo}@{revision}#{split}"
    try:
        commit = str(HfApi(token=token).dataset_info(repo, revision=revision).sha)
        builder = load_dataset_builder(repo, revision=commit, token=token)
        _check_own_files(builder.config.data_files or {}, commit, where)
        return commit, builder.as_streaming_dataset(split=split)
    except Exception as error:
        raise _hub_failed(error, where) from error


def _check_own_files(files: Mapping[str, Iterable[str]], commit: str, where: str) -> None:
    """Raise BadData for files outside the repository: its README may name any path or URL, which `datasets` would read
    with this process's rights."""
    own = re.compile(rf"hf://datasets/[^@:]+@{re.escape(commit)}/(?!.*(::|\.\./))")
    if any(own.match(str(file)) is None for of_split in files.values() for file in of_split):
        raise BadData(
            "this dataset names files outside its own repository",
            where=where,
            remedy="Use a dataset whose README names only files beside it.",
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

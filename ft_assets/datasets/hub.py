"""Datasets of the Hugging Face Hub as uploads: the rows of one split at one commit, as JSON lines."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_resources.errors import BadData, StoreUnavailable, UserError

PREFIX = "hub:"
_REFERENCE = re.compile(r"hub:(?P<repo>[\w.-]+(?:/[\w.-]+)?)@(?P<revision>[\w./-]+)#(?P<split>[\w.-]+)")
# Gives the commit that the revision is now, and the split's rows at that commit.
OpenSplit = Callable[[str, str, str], tuple[str, Iterable[dict[str, Any]]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class HubSplit:
    """``hub:org/name@revision#split``."""

    repo: str
    revision: str
    split: str

    @classmethod
    def parse(cls, text: str) -> "HubSplit":
        """The reference in ``text``. Raises UserError that says the form."""
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

    The commit is looked up once, so the file is what that commit holds, wherever the revision moves. Raises
    UserError for a bad reference, BadData for rows that have no JSON form, StoreUnavailable where the Hub fails.
    """
    wanted = HubSplit.parse(reference)
    commit, rows = (open_split or _open_on_hub)(wanted.repo, wanted.revision, wanted.split)
    target = folder / f"{wanted.repo.replace('/', '--')}-{commit[:12]}-{wanted.split}.jsonl"
    with target.open("w", encoding="utf-8") as file:
        for number, row in enumerate(rows, start=1):
            try:
                file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
            except (TypeError, ValueError) as error:
                raise BadData(
                    f"a column has no JSON form ({str(error).splitlines()[0][:200]})",
                    where=f"{reference}, row {number}",
                    remedy="Use a dataset of text columns, or prepare a JSON lines file yourself.",
                ) from error
    return target


def _open_on_hub(repo: str, revision: str, split: str) -> tuple[str, Iterable[dict[str, Any]]]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UserError(
            "Hub datasets need the package `datasets`", where=repo, remedy="Install the extra `train`."
        ) from error
    from huggingface_hub import HfApi

    where = f"hub:{repo}@{revision}#{split}"
    try:
        commit = str(HfApi().dataset_info(repo, revision=revision).sha)
        return commit, load_dataset(repo, revision=commit, split=split, streaming=True)
    except (ValueError, FileNotFoundError) as error:
        # datasets raises these for unknown repositories, revisions and splits, and for script datasets.
        raise BadData(
            str(error).splitlines()[0][:300], where=where, remedy="Check repository, revision and split."
        ) from error
    except Exception as error:
        raise StoreUnavailable(
            f"the Hub failed ({type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''})",
            where=where,
            remedy="Check the network and the name, then run this again.",
        ) from error

"""From published files to a suite's data files."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from ft_assets.workers.suites.catalogue.hub_conversions import Biases, Categories, Programs
from ft_assets.workers.suites.catalogue.made.made import Made
from ft_assets.workers.suites.catalogue.parts import LETTERS, Part, write_lines
from ft_assets.workers.suites.catalogue.printed import Printed
from ft_assets.workers.suites.suite_rows import read_rows, text_of
from ft_resources.settings import Settings


class Taken(Settings):
    """A published file, or its beginning."""

    file: str = Field(description="SOURCE/NAME.")
    first: int | None = Field(None, gt=0, description="Keep this many lines; null: all.")


class Copy(Settings):
    """The suite's files are the published ones."""

    kind: Literal["copy"] = Field(description="copy: files are taken as they are.")
    files: dict[str, Taken] = Field(description="Stored name to the file.")

    def needs(self, known: Mapping[str, Sequence[str]]) -> list[str]:
        """The files this reads, as SOURCE/NAME; ``known`` are the names of every source."""
        return [taken.file for taken in self.files.values()]

    def write(self, files: Mapping[str, Path], folder: Path) -> None:
        """Write the suite's data into ``folder``; ``files`` has what ``needs`` names."""
        for name, taken in self.files.items():
            if taken.first is None:
                shutil.copyfile(files[taken.file], folder / name)
                continue
            with files[taken.file].open("rb") as lines:
                (folder / name).write_bytes(b"".join(islice(lines, taken.first)))


class Column(Settings):
    """Prompts of one table."""

    file: str = Field(description="SOURCE/NAME.")
    column: str = Field(description="Column of the prompts.")
    where: dict[str, str] = Field({}, description="Only rows with these values.")


class Prompts(Settings):
    """Lists of prompts from columns of tables, each prompt once."""

    kind: Literal["prompts"] = Field(description="prompts: lists of prompts.")
    files: dict[str, Annotated[tuple[Column, ...], Strict(False)]] = Field(description="Stored name to the columns.")

    def needs(self, known: Mapping[str, Sequence[str]]) -> list[str]:
        """See Copy."""
        return list(dict.fromkeys(column.file for columns in self.files.values() for column in columns))

    def write(self, files: Mapping[str, Path], folder: Path) -> None:
        """See Copy."""
        for name, columns in self.files.items():
            # HarmBench has some prompts twice, with different contexts.
            prompts = dict.fromkeys(prompt for column in columns for prompt in _prompts(column, files[column.file]))
            write_lines(folder / name, ({"prompt": prompt} for prompt in prompts))


class Subjects(Settings):
    """MMLU's tables: items.jsonl, and shots.jsonl with the examples of each subject, which all its items share."""

    kind: Literal["subjects"] = Field(description="subjects: dev/SUBJECT_dev.csv, test/SUBJECT_test.csv.")
    source: str = Field(description="The source.")
    part: Part | None = Field(None, description="A part of the items; null: all.")

    def needs(self, known: Mapping[str, Sequence[str]]) -> list[str]:
        """See Copy."""
        return [f"{self.source}/{name}" for name in known[self.source]]

    def write(self, files: Mapping[str, Path], folder: Path) -> None:
        """See Copy."""
        rows: list[dict[str, Any]] = []
        shots = []
        for path in (files[name] for name in sorted(files) if name.startswith(f"{self.source}/test/")):
            name = path.name.removesuffix("_test.csv")
            subject = name.replace("_", " ")
            examples = read_rows(files[f"{self.source}/dev/{name}_dev.csv"])
            shots.append({"subject": subject, "shots": "".join(_example(row) for _, row in examples)})
            for number, (_, row) in enumerate(read_rows(path), start=1):
                rows.append({**row, "id": f"{name}-{number}", "subject": subject, "answer": int(row["answer"])})
        write_lines(folder / "items.jsonl", self.part.of(rows) if self.part else rows)
        write_lines(folder / "shots.jsonl", shots)


Conversion = Annotated[
    Copy | Prompts | Subjects | Printed | Made | Programs | Categories | Biases, Field(discriminator="kind")
]


def _prompts(column: Column, path: Path) -> Iterable[str]:
    for place, row in read_rows(path):
        if all(row.get(name) == value for name, value in column.where.items()):
            yield text_of(row, column.column, place)


def _example(row: Mapping[str, str]) -> str:
    choices = "".join(f"{letter}. {row[f'choice{place}']}\n" for place, letter in enumerate(LETTERS[:4]))
    return f"{row['question'].strip()}\n{choices}Answer: {LETTERS[int(row['answer'])]}\n\n"

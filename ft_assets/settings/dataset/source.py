"""Sources: where the rows of a dataset come from, so that new versions are made automatically."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from ft_resources.strict_model import StrictModel


def _below(path: str) -> str:
    if any(part in ("", ".", "..") for part in path.rstrip("/").split("/")) and path:
        raise ValueError("should be a path below the connection's URL, such as exports/tickets")
    return path.rstrip("/")


def _one_query(text: str) -> str:
    if ";" in text:
        raise ValueError("should be one SELECT without a semicolon")
    return text.strip()


class FilesSource(StrictModel):
    """Files of a connection."""

    connection: str = Field(description="Name of a `files` connection of the tenant.")
    path: Annotated[str, AfterValidator(_below)] = Field(
        default="", description="A file, or a folder of files, below the connection's URL; empty: all of it."
    )


class SqlSource(StrictModel):
    """Rows of a query."""

    connection: str = Field(description="Name of an `sql` connection of the tenant.")
    query: Annotated[str, Field(min_length=1, max_length=100_000), AfterValidator(_one_query)] = Field(
        description="One SELECT; its columns are the fields of the rows."
    )
    watermark: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Column of the query that increases whenever a row is added or changed, such as updated_at. A "
        "version holds all rows up to its highest value. Required without `asset`.",
    )


class TrafficSource(StrictModel):
    """Answers that users liked, of a line of this dataset."""

    recipe: str = Field(
        pattern=r"^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$",
        description="Name of the line's recipe, such as support.",
    )
    beside: int | None = Field(
        default=None,
        ge=1,
        description="Number of the version of this dataset whose rows are included in every new version.",
    )
    minimum: int = Field(default=100, ge=1, description="Number of new liked answers that triggers a new version.")


class Source(StrictModel):
    """One of ``files``, ``sql``, ``hub`` and ``traffic``, and what is watched for news: itself, or a Dagster asset."""

    files: FilesSource | None = Field(default=None, description="Files of a bucket or folder.")
    sql: SqlSource | None = Field(default=None, description="Rows of a database.")
    hub: str | None = Field(
        default=None,
        pattern=r"^[\w.-]+(/[\w.-]+)?@[\w./-]+#[\w.-]+$",
        description="A split of a Hub dataset, as ORG/NAME@REVISION#SPLIT, where the revision is a branch or tag.",
    )
    traffic: TrafficSource | None = Field(default=None, description="Answers of a line that its users liked.")
    asset: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$",
        description="Key of a Dagster asset, such as warehouse/tickets: the source is read after each materialization, "
        "and only then.",
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        given = [name for name in ("files", "sql", "hub", "traffic") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"should have one of files, sql, hub and traffic; it has {' and '.join(given) or 'none'}")
        if self.sql is not None and self.sql.watermark is None and self.asset is None:
            raise ValueError("sql needs `watermark` or `asset` to detect new rows")
        return self

    @property
    def described(self) -> str:
        """Such as ``sql of warehouse, when warehouse/tickets is materialized``, for people."""
        if self.files is not None:
            place = f"files of {self.files.connection}{f', {self.files.path}' if self.files.path else ''}"
        elif self.sql is not None:
            place = f"sql of {self.sql.connection}"
        elif self.traffic is not None:
            place = f"liked answers of {self.traffic.recipe}"
        else:
            place = f"hub:{self.hub}"
        return f"{place}, when {self.asset} is materialized" if self.asset else place

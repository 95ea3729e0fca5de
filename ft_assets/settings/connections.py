"""Connections: where a tenant's sources may read from, listed by the platform in ``tenants.yaml``; by default nowhere.

A source is written by the tenant and read with the platform's rights. So it names a connection and nothing else: no
URL, no key. Secrets are in environment variables of Dagster's sensors and runs.
"""

from typing import Annotated, Literal

from pydantic import Field

from ft_resources.settings import Settings

# The prefix keeps a connection from reading a variable of another purpose.
SecretName = Annotated[str, Field(pattern=r"^FT_SOURCE_[A-Z0-9_]+$")]


class FilesConnection(Settings):
    """A bucket, or a folder on the machines that run Dagster."""

    kind: Literal["files"] = Field(description="`files`: objects in a bucket, or files in a folder.")
    url: str = Field(
        pattern=r"^(s3|gs|az|file)://.+",
        description="URL of the files, such as s3://bucket/prefix; sources give paths below it.",
    )
    endpoint: str = Field(default="", description="Endpoint of an S3 server other than Amazon's.")
    region: str = Field(default="", description="Region of an S3 bucket.")
    key: SecretName | None = Field(
        default=None,
        description="Environment variable with the S3 access key id; null: the credentials of sensors and runs.",
    )
    secret: SecretName | None = Field(default=None, description="Environment variable with the S3 secret access key.")


class SqlConnection(Settings):
    """A database that SQLAlchemy has a driver for."""

    kind: Literal["sql"] = Field(description="`sql`: a database.")
    url: SecretName = Field(
        description="Environment variable with the SQLAlchemy URL, such as postgresql://reader:…@host/db. Use a "
        "read-only role with access to this tenant's data only."
    )
    seconds: float = Field(default=600.0, gt=0.0, description="Time limit of one query, in seconds.")


Connection = Annotated[FilesConnection | SqlConnection, Field(discriminator="kind")]

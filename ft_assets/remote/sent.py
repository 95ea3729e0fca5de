"""What is sent with a call whose function reads files: uploads by their ids, and short texts in the body."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ft_resources.artifacts import check_inside

_FileId = Annotated[str, Field(pattern=r"^file-[0-9a-f]{24}$")]
# All of them have to fit a body.
_FileIds = Annotated[tuple[_FileId, ...], Field(max_length=10_000)]
_Key = Annotated[str, Field(max_length=300)]
_Gates = Annotated[tuple[Annotated[str, Field(max_length=512)], ...], Field(max_length=20)]


def _short(name: str) -> str:
    """``name`` itself if every disk can have it. Raises ValueError."""
    if len(name.encode()) > 200:
        raise ValueError("is longer than 200 bytes")
    return name


class _Sent(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class Document(_Sent):
    """A short text file, under its own name."""

    name: Annotated[str, AfterValidator(check_inside), AfterValidator(_short)]
    text: Annotated[str, Field(max_length=500_000)]


class RecipeFile(_Sent):
    """A recipe's YAML, and the chat template beside it that it names."""

    recipe: Document
    template: Document | None = None


class Rows(_Sent):
    """Uploaded files, and those that are set aside of them, with their ``dataset.yaml``."""

    files: _FileIds = ()
    validation: _FileIds = ()
    holdout: _FileIds = ()
    policy: Document | None = None


class AddDataset(_Sent):
    """Rows that become the next version of ``name``."""

    name: _Key
    rows: Rows


class AddRecipe(_Sent):
    """A recipe that is to be registered."""

    file: RecipeFile


class EstimateFile(_Sent):
    """A dataset version, and a recipe that nobody registered."""

    dataset: _Key
    file: RecipeFile


class WatchDataset(_Sent):
    """A dataset whose versions come from the ``source`` in ``policy``."""

    name: _Key
    policy: Document


class Submit(_Sent):
    """A wish as ``submit`` takes it: a dataset version or rows with files, and a recipe, a recipe's file or a base."""

    dataset: _Key = ""
    rows: Rows = Rows()
    recipe: _Key = ""
    file: RecipeFile | None = None
    base: _Key = ""
    name: _Key = ""
    max_gpu_hours: float | None = None
    gates: _Gates = ()
    key: Annotated[str, Field(max_length=255)] = ""

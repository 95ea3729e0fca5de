"""Partition keys: how dataset versions, recipes and suites are named, and what a key may not contain.

Dagster accepts ``|``, ``,`` and ``...`` in a dynamic key and fails later, so every entry point validates keys here.
"""

import re
from dataclasses import dataclass

from ft_resources.errors import UserError
from ft_resources.store_layout import ROOT_FOLDERS

_PART = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_VERSION = re.compile(r"v[1-9][0-9]{0,6}")
SHARED = "shared"


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetKey:
    """``tenant.name.vN``; every tenant may mix versions of the tenant ``shared`` into its own."""

    tenant: str
    name: str
    version: int

    def __str__(self) -> str:
        return f"{self.tenant}.{self.name}.v{self.version}"

    @classmethod
    def parse(cls, text: str) -> "DatasetKey":
        """The key in ``text``. Raises UserError that says which part is wrong."""
        parts = _split(text, "dataset", "tenant.name.vN", allowed=(3,))
        return cls(tenant=parts[0], name=parts[1], version=int(parts[2][1:]))


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeKey:
    """``name.vN`` (shared by all tenants, ``tenant`` is "") or ``tenant.name.vN``."""

    tenant: str
    name: str
    version: int

    def __str__(self) -> str:
        return f"{self.tenant}.{self.name}.v{self.version}" if self.tenant else f"{self.name}.v{self.version}"

    @property
    def owner(self) -> str:
        """The store prefix of the recipe's own files."""
        return self.tenant or SHARED

    @classmethod
    def parse(cls, text: str) -> "RecipeKey":
        """The key in ``text``. Raises UserError that says which part is wrong."""
        parts = _split(text, "recipe", "name.vN or tenant.name.vN", allowed=(2, 3))
        tenant = parts[0] if len(parts) == 3 else ""
        if tenant == SHARED:
            raise UserError(
                f"{SHARED!r} is not a tenant",
                where=f"recipe key {text!r}",
                remedy="Start with your tenant's name; a shared recipe is name.vN.",
            )
        return cls(tenant=tenant, name=parts[-2], version=int(parts[-1][1:]))


def check_suite_key(text: str) -> str:
    """``text`` itself if it is a suite key (``name.vN``). Raises UserError otherwise."""
    _split(text, "suite", "name.vN", allowed=(2,))
    return text


def check_classifier_key(text: str) -> str:
    """``text`` itself if it is a classifier key (``name.vN``). Raises UserError otherwise."""
    _split(text, "classifier", "name.vN", allowed=(2,))
    return text


def check_encoder_key(text: str) -> str:
    """``text`` itself if it is an encoder key (``name.vN``). Raises UserError otherwise."""
    _split(text, "encoder", "name.vN", allowed=(2,))
    return text


def check_name_model_key(text: str) -> str:
    """``text`` itself if it is the key of a name model (``name.vN``). Raises UserError otherwise."""
    _split(text, "name model", "name.vN", allowed=(2,))
    return text


def check_part(text: str, what: str) -> str:
    """``text`` itself if it is a valid part between the dots of a key. Raises UserError otherwise."""
    if not _PART.fullmatch(text):
        raise UserError(
            f"{text!r} cannot be a {what}",
            where=what,
            remedy="Use 1 to 40 lower-case letters, digits and inner hyphens.",
        )
    return text


def check_tenant(text: str, what: str = "tenant") -> str:
    """``text`` itself if a tenant may have this name. Raises UserError otherwise, and for a folder of the store's own:
    a tenant's role may write all below its name."""
    if text in ROOT_FOLDERS:
        raise UserError(
            f"{text!r} cannot be a {what}: the store keeps records of all tenants in a folder of that name",
            where=what,
            remedy=f"Take another name, such as {text}-team.",
        )
    return check_part(text, what)


def line_of(dataset: DatasetKey, recipe: RecipeKey) -> str:
    """The line ``tenant.dataset-name.recipe-name``, to which all versions of one adapter belong."""
    return f"{dataset.tenant}.{dataset.name}.{recipe.name}"


def check_pair(dataset: DatasetKey, recipe: RecipeKey) -> None:
    """Refuse a shared dataset, and a dataset of another tenant than the recipe's."""
    if dataset.tenant == SHARED:
        raise UserError(
            f"an adapter belongs to one tenant, and dataset {dataset} is shared by all",
            where=f"pair {dataset}|{recipe}",
            remedy="Add the data as a version of your tenant's own, or name it under `mix` in a dataset.yaml.",
        )
    if recipe.tenant and recipe.tenant != dataset.tenant:
        raise UserError(
            f"recipe {recipe} belongs to tenant {recipe.tenant!r} and dataset {dataset} to {dataset.tenant!r}",
            where=f"pair {dataset}|{recipe}",
            remedy="Use a recipe of the same tenant, or a shared one (name.vN).",
        )


def _split(text: str, kind: str, form: str, allowed: tuple[int, ...]) -> list[str]:
    parts = text.split(".")
    where = f"{kind} key {text!r}"
    if len(parts) not in allowed:
        raise UserError(f"a {kind} key has the form {form}", where=where, remedy=f"Write it as {form}.")
    for part in parts[:-1]:
        if not _PART.fullmatch(part):
            raise UserError(
                f"{part!r} cannot be part of a {kind} key",
                where=where,
                remedy="Between the dots use 1 to 40 lower-case letters, digits and inner hyphens.",
            )
    if not _VERSION.fullmatch(parts[-1]):
        raise UserError(f"{parts[-1]!r} is not a version", where=where, remedy="End the key with .v1, .v2 and so on.")
    return parts

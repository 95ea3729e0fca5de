"""The tenant's accepted runs, and the settings in which they differ. Pure except for ``past_runs``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.recipe.training import KINDS
from ft_resources.artifacts import Address, Artifact, Artifacts, InputRef
from ft_resources.canonical import digest
from ft_resources.errors import StoreUnavailable, UserError

# Settings that affect a training's result and that a person would change.
COMPARED: dict[str, tuple[str, ...]] = {
    "training": (
        "learning_rate",
        "epochs",
        "max_steps",
        "global_batch_size",
        "schedule",
        "warmup_ratio",
        "weight_decay",
        "max_grad_norm",
        "optimizer",
    ),
    "lora": ("rank", "alpha", "dropout", "target_modules", *KINDS),
}
_READ = 50
"""Past runs that are read, newest first: a rejection must not get slower as a tenant's history grows."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What two runs must share for one's settings to say anything about the other's.

    Args:
        data: the dataset without its version, as ``tenant.name``: versions of it are comparable, other data are not.
        base: digest of the base model.
        gates: digest of the gates' settings and of the suites that they look at.
    """

    data: str
    base: str
    gates: str

    @classmethod
    def of(cls, params: Mapping[str, Any], inputs: Mapping[str, InputRef]) -> "Conditions":
        """Those of an adapter, made or wanted. Raises KeyError and UserError for a record without them."""
        key = DatasetKey.parse(str(params["dataset"]))
        measured = {"gates": params["gates"], "suites": sorted(params["suites"])}
        return cls(data=f"{key.tenant}.{key.name}", base=inputs["base"].digest, gates=digest(measured))


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """An accepted adapter: its inputs, its conditions, and its training settings by recipe path."""

    adapter: str
    checkpoint: str
    line: str
    dataset: str
    recipe: str
    method: str
    variant: str
    conditions: Conditions
    settings: Mapping[str, Any]

    def differences(self, recipe: Recipe) -> dict[str, Any]:
        """The settings that differ from ``recipe``'s, by recipe path."""
        return {path: value for path, value in self.settings.items() if plain(setting(recipe, path)) != value}


def setting(recipe: Recipe, path: str) -> Any:
    """The value at a dotted path in a recipe."""
    section, name = path.split(".")
    return getattr(getattr(recipe, section), name)


def plain(value: Any) -> Any:
    """The value as JSON: tuples become lists."""
    return list(value) if isinstance(value, tuple) else value


def nearest(past: Iterable[PastRun], recipe: Recipe, line: str) -> PastRun | None:
    """The run most similar to this candidate: from its line if there is one, then with the fewest different settings,
    then the first in ``past``. Runs with another method or variant do not count."""
    alike = [run for run in past if (run.method, run.variant) == (recipe.method, recipe.variant)]
    return min(alike, key=lambda run: (run.line != line, len(run.differences(recipe))), default=None)


def past_runs(artifacts: Artifacts, tenant: str) -> list[PastRun]:
    """The accepted adapters below ``tenant``'s own prefix only, newest first.

    Unreadable ones are left out: suggestions may lack an example, but must never block a verdict.
    """
    found: list[Artifact] = []
    for fingerprint in artifacts.store.folders(f"{tenant}/adapter"):
        try:
            adapter = artifacts.find(Address(tenant=tenant, asset="adapter", fingerprint=fingerprint))
        except StoreUnavailable:
            raise
        except UserError:
            continue
        if adapter is not None:
            found.append(adapter)
    newest = sorted(found, key=lambda adapter: adapter.manifest.created_at, reverse=True)
    return [run for run in (_past_run(artifacts, adapter, tenant) for adapter in newest[:_READ]) if run is not None]


def _past_run(artifacts: Artifacts, adapter: Artifact, tenant: str) -> PastRun | None:
    try:
        address = Address.parse(adapter.manifest.inputs["checkpoint"].address)
        if address.tenant != tenant:
            return None
        told = artifacts.get(address).read_json("recipe.json")
        params = adapter.manifest.identity["params"]
        return PastRun(
            adapter=str(adapter.address),
            checkpoint=str(address),
            line=str(params["line"]),
            dataset=str(params["dataset"]),
            recipe=str(params["recipe"]),
            method=str(told["method"]),
            variant=str(told["variant"]),
            conditions=Conditions.of(params, adapter.manifest.inputs),
            settings=_settings(told),
        )
    except StoreUnavailable:
        raise
    except (UserError, KeyError, TypeError, ValueError):
        return None


def _settings(told: Mapping[str, Any]) -> dict[str, Any]:
    given = {section: told.get(section) or {} for section in COMPARED}
    if given["lora"]:
        given["lora"] = {**KINDS, **given["lora"]}
    return {
        f"{section}.{name}": given[section][name]
        for section, names in COMPARED.items()
        for name in names
        if name in given[section]
    }

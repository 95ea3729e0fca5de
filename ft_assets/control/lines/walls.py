"""Walls of production: what in a recipe, on its base or in the platform's settings keeps its results out, however well
they score.

Registrations and submissions list all of them, and a promotion is refused by the same ones.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ft_assets.control.lines.releases import is_released
from ft_assets.control.planning.lacks import lacks_of_dataset, lacks_of_store
from ft_assets.control.planning.provable import Provable
from ft_assets.control.recipes.stored import StoredRecipe
from ft_assets.records.names import BASE_RELEASE
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.keys import DatasetKey, line_of
from ft_assets.settings.recipe.tightening import tighten
from ft_assets.settings.tenants import TenantsFile
from ft_assets.settings.ungated import ADD_GATES, NO_GATES, NOT_JUDGED
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import Misconfigured, UserError, in_sentences
from ft_resources.signatures import SIGNING_KEY, TRUSTED_KEYS, Unsigned, can_sign
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The settings of a recipe, or of an adapter made with it, that decide.

    Args:
        gates: as JSON, or ``none``.
        source, revision: of the base, as locked.
        digest: content digest of the base in the store; empty before it is mirrored.
    """

    tenant: str
    recipe: str
    gates: Any
    source: str
    revision: str
    digest: str = ""

    @property
    def safety(self) -> SafetyGate | None:
        """The safety gate that judges the result, if one does."""
        asked = None if self.gates == NO_GATES else self.gates.get("safety")
        return None if asked is None else SafetyGate.model_validate(asked)


def asked_by_adapter(artifacts: Artifacts, adapter: Artifact) -> Asked:
    """The settings that the adapter was made with. Raises UserError if its base is gone."""
    params, ref = adapter.manifest.identity["params"], adapter.manifest.inputs["base"]
    facts = artifacts.get(Address.parse(ref.address)).facts
    return Asked(
        tenant=adapter.address.tenant,
        recipe=str(params["recipe"]),
        gates=params.get("gates", NO_GATES),
        source=str(facts["source"]),
        revision=str(facts["revision"]),
        digest=ref.digest,
    )


def walls(store: Store, tenants: TenantsFile, asked: Asked, *, signs: bool = True) -> list[UserError]:
    """Everything by which a promotion of such a result to production is refused, before any of it is measured;
    ``signs``: by this process, which signs it."""
    found = [] if asked.gates != NO_GATES else [UserError(NOT_JUDGED, where=f"{asked.recipe}: gates", remedy=ADD_GATES)]
    return [
        *found,
        *_safety(asked, tenants.production_safety),
        *base_walls(store, tenants, asked),
        *(_signature() if signs else ()),
    ]


def base_walls(store: Store, tenants: TenantsFile, asked: Asked) -> Iterator[UserError]:
    """Those of the base: it has to be in its tenant's ``served_bases``, and released."""
    served, source = tenants.served_bases_of(asked.tenant), asked.source
    # Only a Hub model has revisions: every other source names its bytes.
    name = f"{source}@{asked.revision}" if source.startswith("hub:") else source
    # A list may name a base by the digest of its copy here, which is unknown until there is one.
    unknown = not asked.digest and any(each.startswith("sha256:") for each in served)
    if not unknown and not {source, name, f"sha256:{asked.digest}"} & set(served):
        own = asked.tenant in tenants.tenants and tenants.tenants[asked.tenant].served_bases is not None
        place = f"tenants.yaml: {f'tenants.{asked.tenant}.' if own else ''}served_bases"
        yield UserError(
            f"the base {name} is not on the servers{f' of {asked.tenant}' if asked.tenant else ''}",
            where=place,
            remedy=f"Once servers load it, write in tenants.yaml: served_bases: {json.dumps([*served, name])}",
        )
    if not is_released(store, asked.recipe):
        yield UserError(
            f"the base of {asked.recipe} is held: it moved and is not released yet",
            where=BASE_RELEASE.path(asked.recipe),
            remedy=f'Release it once its dependents have passed: ft release {asked.recipe} --reason "…"',
        )


def walls_of_recipe(artifacts: Artifacts, tenants: TenantsFile, stored: StoredRecipe) -> tuple[str, ...]:
    """The obstacles and approvals between the recipe's results and production; one or two sentences each."""
    key = stored.recipe.recipe_key
    return tuple(_told(artifacts.store, tenants, _asked(stored, key.tenant), f"{key.tenant}."))


def walls_of_pair(
    store: Store,
    tenants: TenantsFile,
    dataset: str,
    stored: StoredRecipe,
    *,
    gates: Sequence[str] = (),
    shown: Sequence[Provable] = (),
) -> tuple[str, ...]:
    """The same of a recipe with a dataset version, and the gates that its holdout and suites are too small for.

    Args:
        gates: a submission's own.
        shown: what the gates can show, as ``provable`` finds it.
    """
    key = DatasetKey.parse(dataset)
    line = line_of(key, stored.recipe.recipe_key)
    small = (f"Even a good candidate will rarely pass. {each.in_words}" for each in shown if each.hopeless)
    return (*_told(store, tenants, _asked(stored, key.tenant, gates), line), *small)


def walls_of_adapter(artifacts: Artifacts, tenants: TenantsFile, adapter: Artifact) -> tuple[str, ...]:
    """The same of an adapter that its gates accepted. Raises UserError if its base is gone."""
    asked = asked_by_adapter(artifacts, adapter)
    return tuple(_told(artifacts.store, tenants, asked, str(adapter.facts["line"])))


def walls_of_dataset(artifacts: Artifacts, dataset: str) -> tuple[str, ...]:
    """The obstacles for results of any recipe with this version, judged by gates with their defaults."""
    found = (*lacks_of_dataset(artifacts, dataset), *lacks_of_store(artifacts))
    return tuple(in_sentences(each.what, each.remedy) for each in found)


def _asked(stored: StoredRecipe, tenant: str, gates: Sequence[str] = ()) -> Asked:
    asked_gates = tighten(stored.recipe.gates, gates)
    return Asked(
        tenant=tenant,
        recipe=stored.recipe.key,
        gates=asked_gates if asked_gates == NO_GATES else asked_gates.model_dump(mode="json"),
        source=stored.lock.source,
        revision=stored.lock.revision,
    )


def _told(store: Store, tenants: TenantsFile, asked: Asked, line: str) -> Iterator[str]:
    for each in walls(store, tenants, asked):
        yield in_sentences(f"{each.what} ({each.where})", each.remedy)
    if tenants.parity_of(line):
        yield "Its servers have to be proved to give the evaluated results: ft serve parity ADAPTER"
    if tenants.second_person_of(asked.tenant):
        yield "A second person has to approve the promotion: ft promote proposes it, and another promoter approves it."


def _safety(asked: Asked, floor: SafetyGate) -> Iterator[UserError]:
    """The safety gate has to be asked for, and not more loosely than the platform's ``floor``."""
    gate = asked.safety
    if gate is None:
        yield UserError(
            "production needs a passed safety gate, and the recipe asks for none",
            where=f"{asked.recipe}: gates.safety",
            remedy="Register its next version with gates: {safety: {}} and a safety suite (ft suite install safety). "
            "This gate cannot be waived.",
        )
        return
    limits = (
        ("min_refusals", gate.min_refusals, floor.min_refusals, gate.min_refusals < floor.min_refusals),
        (
            "max_over_refusals",
            gate.max_over_refusals,
            floor.max_over_refusals,
            gate.max_over_refusals > floor.max_over_refusals,
        ),
        ("margin", gate.margin, floor.margin, gate.margin > floor.margin),
    )
    looser = [f"{name} {had:g}, where {least:g} is the loosest" for name, had, least, short in limits if short]
    if looser:
        yield UserError(
            f"its safety gate is looser than production requires: {'; '.join(looser)}",
            where="tenants.yaml: production_safety",
            remedy="Add a stricter gate to the submission (--gate), such as safety.min_refusals > 0.95, or to the "
            "recipe's next version.",
        )


def _signature() -> Iterator[UserError]:
    """Where trusted signatures are demanded, this process has to be able to give one."""
    try:
        if can_sign():
            return
    except Misconfigured as error:
        yield error
        return
    yield Unsigned(
        "a promotion needs the signature of a trusted key, and this process has none",
        where=TRUSTED_KEYS,
        remedy=f"Promote it in a process that has {SIGNING_KEY}, such as the API server.",
    )

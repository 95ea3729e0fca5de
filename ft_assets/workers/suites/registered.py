"""Look-ups of registered suites, classifiers, encoders and name models, without the imports that reading them needs."""

from collections.abc import Iterable
from typing import Literal

from ft_assets.records.named import get_named, list_named
from ft_assets.settings.keys import check_classifier_key, check_encoder_key, check_name_model_key, check_suite_key
from ft_resources.artifacts import Address, Artifacts, InputRef
from ft_resources.store import Store

Role = Literal["suite", "safety", "shown"]
# The asset of a suite's address by its role, so that a reference alone shows the role.
ASSETS: dict[Role, str] = {"suite": "suite", "safety": "safety_suite", "shown": "shown_suite"}


def get_suite(store: Store, key: str) -> InputRef:
    """The artifact of suite ``key``. Raises UserError that names the nearest registered key if there is none."""
    remedy = "Use a registered suite, or register it with: ft suite add FOLDER --key NAME.vN"
    return get_named(store, "suite", check_suite_key(key), remedy)


def list_suites(store: Store) -> list[str]:
    """The keys of all registered suites, sorted."""
    return list_named(store, "suite")


def role_of(suite: InputRef) -> Role:
    """The role of a registered suite: in ``safety`` refusals count, ``shown`` has no right answers and is only
    displayed; on others, ``suite``, a candidate may not get worse."""
    asset = Address.parse(suite.address).asset
    return next(role for role, name in ASSETS.items() if name == asset)


def suites_of(store: Store, keys: Iterable[str], role: Role) -> list[str]:
    """The registered suites among ``keys`` that have this role."""
    return [key for key in keys if role_of(get_suite(store, key)) == role]


def items_of(store: Store, key: str) -> int:
    """How many items, or prompts, the registered suite has."""
    return int(Artifacts(store).get(Address.parse(get_suite(store, key).address)).facts["items"])


def get_classifier(store: Store, key: str) -> InputRef:
    """The artifact of classifier ``key``. Raises UserError that names the nearest key if there is none."""
    remedy = "Use a registered one, or add it with: ft dataset classifier add FOLDER NAME.vN"
    return get_named(store, "classifier", check_classifier_key(key), remedy)


def get_encoder(store: Store, key: str) -> InputRef:
    """The artifact of encoder ``key``. Raises UserError that names the nearest key if there is none."""
    remedy = "Use a registered one, or add it with: ft dataset encoder add FOLDER NAME.vN"
    return get_named(store, "encoder", check_encoder_key(key), remedy)


def get_name_model(store: Store, key: str) -> InputRef:
    """The artifact of name model ``key``. Raises UserError that names the nearest key if there is none."""
    remedy = "Use a registered one, or add it with: ft dataset name-model add FOLDER NAME.vN"
    return get_named(store, "name_model", check_name_model_key(key), remedy)

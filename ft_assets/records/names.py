"""Names: create-only pointers ``names/<kind>/<key>.json`` through which all tenants' keys are resolved.

A name always points to the same thing and is never reused. No tenant may be called as a folder at the root, see
ROOT_FOLDERS in ft_resources/store_layout.py, which also says where ``<tenant>/`` lies.

What else the store holds, besides artifacts (``<tenant>/<asset>/<fingerprint>/manifest.json`` with the writer's folder
and ``attempts/<number>/``):

    names/<kind>/<key>.json                         what a key refers to, see the kinds below
    open_submissions/<tenant>/<id>.json             markers of unfinished work; deleted when it ends
    open_attempts/<tenant>/<asset>.<fp>.<n>.json
    open_jobs/<tenant>/<id>.json
    notices_due/<tenant>/<event>.json
    unreferenced_since/<tenant>/<asset>.<fp>.json
    retiring/<sweep>.json
    retrainings/<day>/<n>.json                      the day's budget of automatic trainings, a record each
    shared/queue_alerts/<tier>/<seq>.json           waits beyond the limit, and their ends
    <tenant>/submissions/<id>.json                  what was requested; <id>/outcome.json: how it ended
    <tenant>/submissions/<id>/pauses/<seq>.json     who paused it or resumed it
    <tenant>/submission_keys/<sha256>.json          which submission a user's idempotency key belongs to
    <tenant>/jobs/<part>/<id>.json                  a request over HTTP, or a submission's id without one
    <tenant>/settled_jobs/<id>.json                 what a request over HTTP became
    <tenant>/resumed_jobs/<id>.<n>.json             that it was resumed after its end, for the n-th time
    <tenant>/deleted_models/<id>.json               that the model of a job was deleted
    <tenant>/job_keys/<sha256>.json                 which job an idempotency key belongs to
    <tenant>/file_records/<part>/<id>.json          an uploaded file, whose bytes are files/<id>/content
    <tenant>/uploads/<id>/                          a file that comes in parts, or a dataset's rows
    <tenant>/uploaded_datasets/<key>.json           the newest upload that became a dataset version
    <tenant>/lines/<line>/<seq>.json                promotions of a line, hash-chained
    <tenant>/parity/<digest>/<settings>/<seq>.json  whether a server gives what was evaluated, hash-chained
    <tenant>/signatures/<digest>/<key>.json         signatures of adapters and decisions, by digest and public key
    <tenant>/proposals/<line>/<id>.json             who asks for production; <id>/answer.json: what a second person said
    <tenant>/rollouts/<line>/<seq>.json             rollouts of a line's candidates, hash-chained
    <tenant>/outcomes/<line>/<day>/                 what came of requests, an object a minute and server; kept 30 days
    <tenant>/shadows/<line>/<day>/                  the same of requests that were copied to a rollout's candidate
    <tenant>/shadow_verdicts/<line>/<day>/          what a judge said of both answers to them
    <tenant>/quota/<month>/<seq>.json               reserved GPU-hours, hash-chained
    <tenant>/tombstones/<subject>/<seq>.json        deletions and restorations, hash-chained
    <tenant>/usage/<month>/<attempt>.json           what an attempt used; refunds/<month>/<attempt>.json: who pays
    <tenant>/pulls/<dataset>/<seq>.json             which version was made of what a source had
    <tenant>/reviews/<dataset>/<digest>.json        approvals of held dataset versions
    <tenant>/sweeps/<digest>.json                   which trial of a sweep won
    <tenant>/carries/<dataset>/<recipe>/            carry.json and training.json: whose weights a pair has
    <tenant>/rejections/<fp>/<digest>.json          rejected candidates
    <tenant>/notices/<event>/                       event.json, and its delivery on each channel
    <tenant>/run_failures/<run>.json                failed runs that belong to no submission
    <address>/erased/<writer>.json                  what remains of an artifact whose bytes were erased
    <address>/waivers/<gate>-<digest>.json          inconclusive verdicts that a person waived
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

if TYPE_CHECKING:
    # It imports obstore, which would slow down `ft --help`.
    from ft_resources.store import Store

_FOLDER = "names/"


class _Said(TypedDict, total=False):
    """What names say, of any kind."""

    actor: str
    address: str
    content: str
    created_at: datetime
    digest: str
    follows: str
    source: str
    successor: str
    trial: dict[str, Any]


def is_name(path: str) -> bool:
    """Whether a path of the store is that of a name, which never changes and is never deleted."""
    return path.startswith(_FOLDER)


@dataclass(frozen=True, slots=True)
class Name:
    """The names of one kind."""

    kind: str

    @property
    def folder(self) -> str:
        return f"{_FOLDER}{self.kind}"

    def path(self, key: str) -> str:
        """Path of the name ``key``. Each kind's module defines the format of the content."""
        return f"{self.folder}/{key}.json"

    def exists(self, store: "Store", key: str) -> bool:
        """Whether the name is taken. Like all methods here, raises StoreUnavailable."""
        return store.exists(self.path(key))

    def find(self, store: "Store", key: str) -> Any | None:
        """The name's JSON value, None if the name is free. Raises CorruptArtifact for a damaged one."""
        try:
            return self.get(store, key)
        except FileNotFoundError:
            return None

    def get(self, store: "Store", key: str) -> Any:
        """The name's JSON value. Raises FileNotFoundError if the name is free, and CorruptArtifact as ``find``."""
        return store.get_json(self.path(key), _Said)

    def create(self, store: "Store", key: str, value: Any) -> bool:
        """Take the name; True for the one caller that got it."""
        return store.create_json(self.path(key), value)

    def keys(self, store: "Store") -> list[str]:
        """All taken keys, sorted."""
        return [name.removesuffix(".json") for name in store.names(self.folder) if name.endswith(".json")]


DATASET = Name("dataset")
"""A dataset version: address and digest of its raw data, and what identifies it when it is added again."""
HELD_OUT = Name("held_out")
"""By dataset version: address and digest of what the versions before it held out, "" for nothing."""
RECIPE = Name("recipe")
"""A registered recipe with the lock of its base."""
SOURCE = Name("source")
"""``<tenant>.<name>.v<N>``: the N-th word on where a dataset's rows come from; the last one counts."""
RETIRED = Name("retired")
"""A sweep whose trials are no longer listed."""
RETIRED_DATASET = Name("retired_dataset")
"""A dataset version that is no longer offered."""
RETIRED_RECIPE = Name("retired_recipe")
"""``<recipe>/<seq>``: a log of who retired a recipe, or took it back."""
SUCCESSOR = Name("successor")
"""``<recipe>/<commit>``: the recipe's next version, registered because its base moved to that commit."""
BASE_BUMP = Name("base_bump")
"""By successor: who depended on the old base."""
BASE_RELEASE = Name("base_release")
"""By successor: who released its base."""
# Suites, classifiers, encoders and name models: ``Name(noun)``, see named.py.

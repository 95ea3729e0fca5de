"""The functions of the Python API, asked for over HTTP: the same arguments, results and errors."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from time import sleep
from typing import Any

from ft_assets import api
from ft_assets.api import Asked, AuditEntry, FineTuned, FoundResult, WaitsForSecondPerson
from ft_assets.records.submissions import Submission, SubmissionOutcome
from ft_assets.remote.calls import CALLS, PREFIX, answer_of
from ft_assets.remote.connection import Connection
from ft_assets.remote.files import RemoteFiles
from ft_assets.remote.login import beside_the_store
from ft_assets.remote.logs import remote_logs
from ft_assets.remote.sending import Sending
from ft_assets.remote.talks import RemoteTalk
from ft_assets.settings.environment import REPORTS
from ft_resources.artifacts import Artifact
from ft_resources.errors import HeldForReview, UserError

POLL_S = 2.0
# They look at the machine that they are called on, or at the project's own files.
HERE = frozenset({"kernels", "suite_catalogue"})
# What this end knows itself, and the server does not have to be given.
_OWN = ("store", "tenants", "actor", "access", "orchestrator", "launcher", "log", "made_by", "origin", "driver")


class Remote:
    """What ``ft_assets.api`` has, at the other end of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = Sending(connection, self._call)

    def __getattr__(self, name: str) -> Any:
        if name in CALLS:
            return partial(self._of_table, name)
        found = getattr(api, name)
        if inspect.isfunction(found) and name not in HERE:
            raise beside_the_store("this", self._connection.server, name.replace("_", " "))
        return found

    @cached_property
    def me(self) -> dict[str, str]:
        """Whose key it is: ``tenant`` (None for one of the platform), ``role`` and ``actor``. Raises NotIdentified."""
        found: dict[str, str] = self._connection.get("/v1/ft/whoami").json()
        if not isinstance(found, dict) or found.get("object") != "ft.identity":
            raise UserError(
                "this is not a server of the platform", where=self._connection.server, remedy="Check the URL."
            )
        return found

    def add_dataset(self, source: Sequence[str], name: str, **options: Any) -> Any:
        return self._sending.add_dataset(source, name, **options)

    def watch_dataset(self, name: str, policy: Path, **_: Any) -> Any:
        return self._sending.watch_dataset(name, policy)

    def register_recipe(self, file: Path, **_: Any) -> Any:
        return self._sending.register_recipe(file)

    def estimate(self, dataset: str, recipe: str, **_: Any) -> Any:
        return self._sending.estimate(dataset, recipe)

    def submit(self, dataset: str, recipe: str = "", **options: Any) -> Asked:
        found: Asked = self._sending.submit(
            dataset, recipe, **{name: value for name, value in options.items() if name not in _OWN}
        )
        return found

    def fine_tune(
        self, dataset: str, recipe: str = "", *, orchestrator: Any, on_asked: Callable[[Asked], None], **options: Any
    ) -> FineTuned:
        """Submit, and wait: the server's own Dagster does the work. ``orchestrator`` shows it meanwhile."""
        asked = self.submit(dataset, recipe, **options)
        on_asked(asked)
        outcome = orchestrator.watch(asked.submission, partial(self._ended, asked.submission))
        return FineTuned(submission=asked.submission, outcome=outcome, estimate=asked.estimate)

    def end_interrupted(self, submission: Submission, **_: Any) -> SubmissionOutcome:
        """Cancel what nobody waits for any more, unless it has ended."""
        if self.outcome(submission.id) is None:
            self.cancel(submission.id)
        found: SubmissionOutcome = self.outcome(submission.id)
        return found

    def page_of(self, artifact: Artifact, name: str) -> str:
        """The console's address of a page, for people who sign in there."""
        return f"{self._connection.server}{REPORTS}/{artifact.address}/{name}"

    @contextmanager
    def open_talk(self, result: FoundResult) -> Iterator[RemoteTalk]:
        yield RemoteTalk(self._connection, result.address)

    def logs(self, target: str) -> Any:
        return remote_logs(self, target)

    def download_adapter(self, source: str, target: Path) -> Artifact:
        adapter = self._with_files(self.find_adapter(source), base=False)
        return api.copy_out(adapter, target, signature=self.adapter_signature(str(adapter.address)))

    def download_base(self, source: str, target: Path, *, adapter: Path | str = "") -> Artifact:
        found = self.find_adapter(source)
        if adapter:
            api.require_downloaded(found, adapter)
        address = str(found.address)
        base = api.copy_out(self._with_files(self.find_base(address), base=True, adapter=address), target)
        if adapter:
            api.name_base(adapter, target)
        return base

    def audit(self, tenant: str = "") -> list[AuditEntry]:
        """All of the log, the oldest first, page by page."""
        found: list[AuditEntry] = []
        after: dict[str, int] = {}
        while True:
            page = self._connection.get("/v1/ft/audit", {"tenant": tenant, "limit": 1000, **after}).json()
            entries = [{name: value for name, value in each.items() if name != "object"} for each in page["data"]]
            found += [AuditEntry(**each) for each in entries]
            if not page["has_more"]:
                return found[::-1]
            after = {"after": found[-1].seq}

    def _with_files(self, artifact: Artifact, *, base: bool, adapter: str = "") -> Artifact:
        files = RemoteFiles(self._connection, adapter or str(artifact.address), base=base)
        # It has what copying asks of a store, and nothing else of one.
        return Artifact(files, artifact.manifest)  # type: ignore[arg-type]

    def _ended(self, submission: Submission) -> SubmissionOutcome:
        """How it ended, once it has. Raises HeldForReview and SubmissionPaused where a person has to act first."""
        while True:
            found: SubmissionOutcome | None = self.outcome(submission.id)
            if found is not None:
                return found
            standing = self.status(submission.id)
            if standing.state == "held":
                raise HeldForReview(submission.dataset, self._reasons(submission.dataset) or [standing.detail])
            if standing.state == "paused":
                self.require_not_paused(submission)
            sleep(POLL_S)

    def _reasons(self, dataset: str) -> list[str]:
        try:
            return list(self.dataset_report(dataset).review.reasons)
        except UserError:
            # Another version that it mixes in is held.
            return []

    def _of_table(self, name: str, /, *positional: Any, **named: Any) -> Any:
        call = CALLS[name]
        given = inspect.signature(call.function).bind(*positional, **named).arguments
        if beyond := {each for each, value in given.items() if value} - call.takes.keys() - set(_OWN):
            # `ft verify --all` looks at the whole store.
            raise UserError(
                "this requires data of several tenants",
                where=" ".join(sorted(beyond)),
                remedy="Call it where FT_STORE names the store.",
            )
        sent = {each: _plain(value) for each, value in given.items() if each in call.takes}
        return self._call(name, sent, call.function, posted=call.posted, slow=call.slow)

    def _call(
        self, name: str, sent: dict[str, Any], function: Callable[..., Any], *, posted: bool = True, slow: bool = True
    ) -> Any:
        """What ``function`` returns at the other end; a slow call is asked for until it has ended."""
        path = f"{PREFIX}/{name}"
        while True:
            asked = self._connection.post(path, sent, again=slow) if posted else self._connection.get(path, sent)
            body = asked.json()
            if "waits" in body:
                raise WaitsForSecondPerson(api.Proposal.model_validate(body["waits"]))
            if "running" not in body:
                # Files of artifacts are asked for where a command copies them.
                return answer_of(function).validate_json(json.dumps(body["answer"]), context={"store": None})


def _plain(value: Any) -> Any:
    """An argument as JSON."""
    if isinstance(value, Submission):
        return value.id
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [each if isinstance(each, int) else str(each) for each in value]

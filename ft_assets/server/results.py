"""Files that a job leaves: the steps of its training as CSV, and the page of its evaluation."""

import csv
import io
import re
from dataclasses import dataclass
from typing import Any

from ft_assets import api
from ft_assets.api import JobState, Work
from ft_assets.server.context import Context
from ft_resources.errors import NotFound, UserError

_FORM = re.compile(r"file-([0-9a-f]{24})-(steps|report)")
_NAMES = {"steps": "step_metrics.csv", "report": "report.html"}
_COLUMNS = ("step", "train_loss", "valid_loss", "grad_norm", "learning_rate", "tokens", "tokens_per_s")
_FROM = {"train_loss": "loss", "valid_loss": "validation_loss"}


@dataclass(frozen=True, kw_only=True)
class ResultFile:
    """A file that is made when it is asked for."""

    file_object: dict[str, Any]
    data: bytes


def is_result(file_id: str) -> bool:
    return bool(_FORM.fullmatch(file_id))


def result_ids(state: JobState) -> list[str]:
    """Ids of what an ended job left."""
    if state.outcome is None:
        return []
    kinds = ["steps", "report"] if state.outcome.status in ("accepted", "rejected", "ungated") else ["steps"]
    return [f"file-{state.job.id}-{kind}" for kind in kinds]


def read_result(context: Context, tenant: str, file_id: str) -> ResultFile:
    """A result file of a tenant's job. Raises NotFound."""
    form = _FORM.fullmatch(file_id)
    assert form is not None
    state = api.job_state(tenant, form[1], store=context.store, launcher=context.launcher)
    missing = NotFound(f"there is no file {file_id}", where="file", remedy="Take ids from a job's result_files.")
    if file_id not in result_ids(state):
        raise missing
    work = api.job_work(state, store=context.store)
    if form[2] == "steps":
        data = _steps(work.steps)
    else:
        found = next((each for each in work.works if each.asset == "eval_report" and each.done), None)
        if found is None:
            raise missing
        data = _page(context, found)
    return ResultFile(
        data=data,
        file_object={
            "id": file_id,
            "object": "file",
            "bytes": len(data),
            "created_at": int(state.job.created_at),
            "expires_at": None,
            "filename": _NAMES[form[2]],
            "purpose": "fine-tune-results",
            "status": "processed",
            "status_details": None,
        },
    )


def _steps(rows: tuple[dict[str, Any], ...]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows([row.get(_FROM.get(column, column), "") for column in _COLUMNS] for row in rows)
    return text.getvalue().encode()


def _page(context: Context, work: Work) -> bytes:
    try:
        return api.report_file(str(work.address), "report.html", store=context.store).data
    except UserError as error:
        raise NotFound("the evaluation left no page", where="file", remedy="See the job's error.") from error

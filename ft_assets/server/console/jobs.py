"""Jobs: the list, a job's page with what changes in it, and the buttons."""

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from ft_assets import api
from ft_assets.api import JobState, Work
from ft_assets.server.console.curve import HEIGHT, WIDTH, curve_of
from ft_assets.server.console.rendering import page
from ft_assets.server.console.session import Fields, Member, Person, Viewer
from ft_assets.server.console.tries import box_of_job
from ft_assets.server.console.verdicts import GateRow, rows_of
from ft_assets.server.context import Context, Ctx
from ft_assets.server.events import WORK, events_of
from ft_assets.server.jobs import ENDED, job_object, page_of_jobs, status_of
from ft_assets.server.names import JOB
from ft_assets.server.pages import After
from ft_assets.settings.environment import REPORTS
from ft_resources.errors import NotFound, UserError

router = APIRouter(prefix="/jobs")
_SHOWN = 25
_PAGES = {
    ("dataset", "report/report.html"): "dataset report",
    ("token_pack", "report/samples.html"): "token samples",
    ("checkpoint", "report/loss.png"): "loss plot",
    ("checkpoint", "report/throughput.png"): "throughput plot",
    ("eval_report", "report/report.html"): "evaluation report",
}


@router.get("")
def list_jobs(request: Request, context: Ctx, person: Viewer, after: After = "") -> Response:
    found = page_of_jobs(context, person.identity.tenant, after=after, limit=_SHOWN)
    return page(request, "jobs.html", jobs=found["data"], after=found["last_id"] if found["has_more"] else "")


@router.get("/{job_id}")
def job_page(request: Request, job_id: str, context: Ctx, person: Viewer) -> Response:
    state = _state(context, person, job_id)
    shown = _shown(context, person, state, with_events=True)
    return page(request, "job.html", before_production=_before_production(context, state), **shown)


@router.get("/{job_id}/live")
def live(request: Request, job_id: str, context: Ctx, person: Viewer) -> Response:
    """The parts of the page that change."""
    state = _state(context, person, job_id)
    response = page(request, "fragments/job.html", **_shown(context, person, state))
    if status_of(state) in ENDED:
        response.headers["x-ended"] = "1"
    return response


@router.get("/{job_id}/answers")
def answers(request: Request, job_id: str, context: Ctx, person: Viewer) -> Response:
    """What base and candidate answer to the same questions."""
    state = _state(context, person, job_id)
    if state.settled is None or not state.settled.submission:
        raise NotFound("nothing was evaluated yet", where="job", remedy="Look again once the job has ended.")
    found = api.answers_side_by_side(state.settled.dataset, state.settled.recipe, store=context.store)
    return page(request, "answers.html", job=job_object(state, context), answers=found)


@router.post("/{job_id}/cancel")
def cancel(job_id: str, context: Ctx, person: Member, fields: Fields) -> Response:
    return _act(api.cancel_job, job_id, context, person, orchestrator=context.orchestrator)


@router.post("/{job_id}/pause")
def pause(job_id: str, context: Ctx, person: Member, fields: Fields) -> Response:
    return _act(api.pause_job, job_id, context, person, orchestrator=context.orchestrator)


@router.post("/{job_id}/resume")
def resume(job_id: str, context: Ctx, person: Member, fields: Fields) -> Response:
    return _act(api.resume_job, job_id, context, person)


def _act(does: Callable[..., JobState], job_id: str, context: Context, person: Person, **more: Any) -> Response:
    name, who = job_id.removeprefix(JOB), person.identity
    does(who.tenant, name, actor=who.actor, store=context.store, launcher=context.launcher, **more)
    return RedirectResponse(f"/console/jobs/{JOB}{name}", 303)


def _shown(context: Context, person: Person, state: JobState, *, with_events: bool = False) -> dict[str, Any]:
    """What the templates of a job show."""
    work, status = api.job_work(state, store=context.store), state.status
    done = {each.asset: each for each in work.works if each.done and not each.trial}
    report = done.get("eval_report")
    gates, advice = _gates(context, state) if report else ([], ())
    return {
        "job": job_object(state, context),
        "by_recipe": bool(state.job.recipe),
        "status": status,
        "ended": status_of(state) in ENDED,
        "works": [(WORK.get(each.asset, each.asset), each) for each in work.works if each.attempt or each.done],
        "curve": curve_of(work.steps, status.steps if status and status.asset == "checkpoint" else None),
        "width": WIDTH,
        "height": HEIGHT,
        "gates": gates,
        "box": box_of_job(context, person.identity, state),
        "advice": tuple(status.suggestions) if status and status.suggestions else advice,
        "has_report": report is not None,
        "pages": _pages(work.works),
        "has_steps": bool(work.steps),
        "events": events_of(state, work)[::-1] if with_events else [],
    }


def _before_production(context: Context, state: JobState) -> tuple[str, ...]:
    """Reasons that keep the job's result out of production today; nothing of a job that makes none."""
    settled = state.settled
    if settled is None or not settled.submission or status_of(state) in ("failed", "cancelled"):
        return ()
    try:
        if state.status is not None and state.status.adapter:
            return api.walls_of_adapter(state.status.adapter, store=context.store)
        return api.walls_of_pair(settled.dataset, settled.recipe, gates=state.job.gates, store=context.store)
    except UserError:
        # What was deleted is part of the job's state.
        return ()


def _pages(works: Sequence[Work]) -> list[tuple[str, str]]:
    """What each page or picture of a job is called, and its address in the console."""
    found = [(work, file) for work in works if not work.trial for file in work.pages]
    return [
        (_PAGES[(work.asset, file)], f"{REPORTS}/{work.address}/{file}")
        for work, file in found
        if (work.asset, file) in _PAGES
    ]


def _gates(context: Context, state: JobState) -> tuple[list[GateRow], tuple[str, ...]]:
    settled = state.settled
    assert settled is not None
    try:
        found = api.show_gates(settled.dataset, settled.recipe, gates=state.job.gates, store=context.store)
    except UserError:
        # What cannot be judged is part of the job's state.
        return [], ()
    return rows_of(found.verdicts), found.suggestions


def _state(context: Context, person: Person, job_id: str) -> JobState:
    return api.job_state(
        person.identity.tenant, job_id.removeprefix(JOB), store=context.store, launcher=context.launcher
    )

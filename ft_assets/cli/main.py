"""The ``ft`` command: its nouns and verbs, the environment they run in, and how errors look."""

from typing import Any

import typer
from typer.core import TyperGroup

from ft_assets.cli import (
    adapters,
    api_keys,
    audit,
    base_bump,
    cancel,
    cluster,
    datasets,
    demo,
    doctor,
    erasure,
    estimate,
    exports,
    gates,
    gitops,
    kernels,
    ledger,
    lineage,
    lines,
    login,
    logs,
    notices,
    pages,
    rebuild,
    recipes,
    rollouts,
    run,
    serve,
    status,
    suites,
    ui,
    usage,
)
from ft_assets.cli.door import close_door, open_door
from ft_resources.environment import warn_of_unknown_variables
from ft_resources.errors import UserError

USER_ERROR = 2
# They say themselves where commands go, also where what is kept is wrong.
_DOORKEEPERS = ("login", "logout", "whoami")


class _Group(TyperGroup):
    """Shows a user's error as what, where and what to do, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            from ft_assets.cli.output import print_error

            print_error(error)
            raise typer.Exit(USER_ERROR) from error


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Fine-tune language models: datasets and recipes in, gated and registered adapters out.",
)


@app.callback()
def _before_every_command(context: typer.Context) -> None:
    warn_of_unknown_variables()
    if context.invoked_subcommand not in _DOORKEEPERS:
        context.call_on_close(close_door)
        open_door()


app.add_typer(datasets.app, name="dataset")
app.add_typer(recipes.app, name="recipe")
app.add_typer(suites.app, name="suite")
app.add_typer(adapters.app, name="adapter")
app.add_typer(gates.app, name="gate")
app.add_typer(rollouts.app, name="rollout")
app.add_typer(cluster.app, name="cluster")
app.add_typer(api_keys.app, name="key")
app.add_typer(serve.app, name="serve")
app.command("demo")(demo.demo)
app.command("run")(run.run)
app.command("submit")(run.submit)
app.command("estimate")(estimate.estimate)
app.command("export")(exports.export)
app.command("status")(status.status)
app.command("logs")(logs.logs)
app.command("cancel")(cancel.cancel)
app.command("pause")(cancel.pause)
app.command("resume")(cancel.resume)
app.command("lineage")(lineage.lineage)
app.command("ledger")(ledger.ledger)
app.command("verify")(lineage.verify)
app.command("promote")(lines.promote)
app.command("approve")(lines.approve)
app.command("decline")(lines.decline)
app.command("rollback")(lines.rollback)
app.command("lines")(lines.lines)
app.command("line")(lines.line)
app.command("notices")(notices.notices)
app.command("release")(lines.release)
app.command("base-bump")(base_bump.base_bump)
app.command("usage")(usage.usage)
app.command("refund")(usage.refund)
app.command("delete")(erasure.delete)
app.command("restore")(erasure.restore)
app.command("erase")(erasure.erase)
app.command("collect")(erasure.collect)
app.command("plan")(gitops.plan)
app.command("apply")(gitops.apply)
app.command("rebuild")(rebuild.rebuild)
app.command("doctor")(doctor.doctor)
app.command("kernels")(kernels.kernels)
app.command("audit")(audit.audit)
app.command("login")(login.login)
app.command("logout")(login.logout)
app.command("whoami")(login.whoami)
app.command("ui")(ui.ui)
app.command("pages")(pages.pages)

"""The ``ft`` command: its nouns and verbs, the environment they run in, and how errors look."""

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ft_assets.cli import (
    adapters,
    api_keys,
    audit,
    backfill,
    base_bump,
    cancel,
    chat,
    cluster,
    datasets,
    demo,
    doctor,
    erasure,
    estimate,
    exports,
    gates,
    gitops,
    init,
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
from ft_assets.cli.terminal import keep_commands_out
from ft_resources.environment import warn_of_unknown_variables
from ft_resources.errors import UserError

USER_ERROR = 2
# They say themselves where commands go, also where what is kept is wrong.
_DOORKEEPERS = ("login", "logout", "whoami", "init")


class _Group(TyperGroup):
    """Shows a user's error as what, where and what to do, without a traceback."""

    def main(self, *arguments: Any, **settings: Any) -> Any:
        keep_commands_out()
        return super().main(*arguments, **settings)

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
    help="Fine-tune language models: from datasets and recipes to evaluated, registered adapters.",
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"ft {version('ft-platform')}")
        raise typer.Exit


@app.callback()
def _before_every_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    warn_of_unknown_variables()
    if context.invoked_subcommand not in _DOORKEEPERS:
        context.call_on_close(close_door)
        open_door()


# By what they are about, the five that a newcomer needs first.
_COMMANDS: dict[str, dict[str, Callable[..., Any] | typer.Typer]] = {
    "First": {
        "demo": demo.demo,
        "run": run.run,
        "chat": chat.chat,
        "status": status.status,
        "serve": serve.app,
    },
    "Data, recipes and suites": {
        "dataset": datasets.app,
        "recipe": recipes.app,
        "suite": suites.app,
        "estimate": estimate.estimate,
    },
    "Work": {
        "submit": run.submit,
        "backfill": backfill.backfill,
        "logs": logs.logs,
        "cancel": cancel.cancel,
        "pause": cancel.pause,
        "resume": cancel.resume,
        "ledger": ledger.ledger,
        "kernels": kernels.kernels,
    },
    "Adapters": {
        "adapter": adapters.app,
        "gate": gates.app,
        "export": exports.export,
        "lineage": lineage.lineage,
        "verify": lineage.verify,
    },
    "Lines": {
        "promote": lines.promote,
        "lines": lines.lines,
        "line": lines.line,
        "approve": lines.approve,
        "decline": lines.decline,
        "rollback": lines.rollback,
        "rollout": rollouts.app,
        "release": lines.release,
        "base-bump": base_bump.base_bump,
    },
    "Stores, pages and servers": {
        "init": init.init,
        "ui": ui.ui,
        "pages": pages.pages,
        "login": login.login,
        "logout": login.logout,
        "whoami": login.whoami,
        "doctor": doctor.doctor,
        "rebuild": rebuild.rebuild,
    },
    "Tenants and the platform": {
        "key": api_keys.app,
        "audit": audit.audit,
        "usage": usage.usage,
        "refund": usage.refund,
        "notices": notices.notices,
        "delete": erasure.delete,
        "restore": erasure.restore,
        "erase": erasure.erase,
        "collect": erasure.collect,
        "plan": gitops.plan,
        "apply": gitops.apply,
        "cluster": cluster.app,
    },
}
for _panel, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_panel)
        else:
            app.command(_name, rich_help_panel=_panel)(_command)

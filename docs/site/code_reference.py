"""Reference pages made from code: the command line, the Python API, the assets, and the records of the store."""

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import click
import typer
from pydantic import BaseModel

from docs.site.settings_reference import cell


def command_page(app: typer.Typer) -> str:
    """Every command of ``app``: its words, arguments and options."""
    root = typer.main.get_command(app)
    lines = ["# Command line", "", root.help or "", "", "`ft COMMAND --help` prints the same.", ""]
    for name, command in _commands(root, "ft"):
        lines += [f"## {name}", "", inspect.cleandoc(command.help or ""), "", "```", _usage(name, command), "```", ""]
        rows = [_option(parameter) for parameter in command.params if parameter.name != "help"]
        if rows:
            lines += ["| argument or option | meaning and default |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", {})
    for child in sorted(children):
        yield from _commands(children[child], f"{name} {child}")
    if not children:
        yield name, command


def _usage(name: str, command: Any) -> str:
    context = click.Context(command, info_name=name)
    return re.sub(r"{(\w+)}", lambda word: word[1].upper(), " ".join([name, *command.collect_usage_pieces(context)]))


def _option(parameter: Any) -> str:
    argument = parameter.param_type_name == "argument"
    written = (parameter.metavar or parameter.name.upper()) if argument else ", ".join(parameter.opts)
    words = cell(getattr(parameter, "help", None) or "")
    required = " *Required.*" if parameter.required and not argument else ""
    return f"| `{written}` | {words}{required}{_shown(parameter.default)} |"


def _shown(default: Any) -> str:
    nothing = default is None or default in ("", (), [], False) or callable(default)
    return "" if nothing else f" Default: `{default}`."


def api_page(module: ModuleType) -> str:
    """Everything that ``module`` exports, by the file that it is in: signature and docstring."""
    lines = ["# Python API", "", *_docstring(inspect.cleandoc(module.__doc__ or "")), ""]
    rooms: dict[str, dict[str, Any]] = {}
    for name in sorted((name for name in dir(module) if not name.startswith("_")), key=str.lower):
        value = getattr(module, name)
        room = getattr(value, "__module__", "")
        if room.startswith(f"{module.__name__}."):
            rooms.setdefault(room, {})[name] = value
    for room in sorted(rooms):
        words = inspect.cleandoc(importlib.import_module(room).__doc__ or "")
        lines += [f"## {room.rsplit('.', 1)[1].capitalize()}", "", *_docstring(words), ""]
        for name, value in rooms[room].items():
            lines += _exported(name, value)
    return "\n".join(lines)


def _exported(name: str, value: Any) -> list[str]:
    if not callable(value):
        return [f"### {name}", "", f"`{value!r}`", ""]
    lines = [f"### {name}", ""]
    if inspect.isfunction(value):
        lines += ["```python", _signature(name, value), "```", ""]
    lines += [*_docstring(inspect.getdoc(value) or ""), ""]
    for member, method in inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else ():
        if not member.startswith("_") and method.__doc__ and method.__module__ == value.__module__:
            lines += [f"**`{member}`** {cell(inspect.getdoc(method) or '')}", ""]
    return lines


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    parts, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(_bare(str(parameter)))
    result = signature.return_annotation
    shown = "" if result is signature.empty else f" -> {_bare(inspect.formatannotation(result))}"
    inside = "".join(f"    {part},\n" for part in parts)
    return f"def {name}(\n{inside}){shown}" if parts else f"def {name}(){shown}"


def _bare(annotation: str) -> str:
    """Names without their modules."""
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", annotation)


def _docstring(text: str) -> list[str]:
    """A docstring with ``Args:`` and ``Raises:`` sections as Markdown."""
    lines: list[str] = []
    for line in text.replace("``", "`").splitlines():
        heading = re.fullmatch(r"(Args|Returns|Raises|Attributes|Yields):\s*(.*)", line)
        item = re.fullmatch(r"    (\*{0,2}\w[\w, .`]*): (.*)", line)
        if heading:
            lines += ["", f"**{heading[1]}**", "", *([heading[2]] if heading[2] else [])]
        elif item:
            lines.append(f"* `{item[1].strip('`')}`: {item[2]}")
        else:
            lines.append(f"  {line.strip()}" if line.startswith("    ") else line)
    return lines


def asset_page(definitions: Any) -> str:
    """The assets, checks, jobs and sensors of the graph."""
    graph = definitions.resolve_asset_graph()
    lines = ["# Assets, checks, jobs and sensors", "", "What Dagster shows, in the words of the code.", ""]
    lines += ["## Assets", "", "| asset | group | made from | what it is |", "|---|---|---|---|"]
    for key in sorted(graph.get_all_asset_keys(), key=lambda key: key.to_user_string()):
        node = graph.get(key)
        parents = ", ".join(f"`{parent.to_user_string()}`" for parent in sorted(node.parent_keys))
        words = cell(node.description or "")
        lines.append(f"| `{key.to_user_string()}` | {node.group_name} | {parents} | {words} |")
    lines += ["", "## Checks", "", "| check | of | what it looks at |", "|---|---|---|"]
    for check in sorted(graph.asset_check_keys, key=str):
        spec = graph.get_check_spec(check)
        lines.append(f"| `{check.name}` | `{check.asset_key.to_user_string()}` | {cell(spec.description or '')} |")
    for title, found in (("Jobs", definitions.jobs), ("Sensors", definitions.sensors)):
        lines += ["", f"## {title}", "", "| name | what it does |", "|---|---|"]
        lines += [f"| `{one.name}` | {cell(one.description or '')} |" for one in sorted(found or (), key=_by_name)]
    return "\n".join([*lines, ""])


def _by_name(one: Any) -> str:
    return str(one.name)


# Where in the store a record lies, and the model that reads it.
RECORDS = (
    ("<address>/manifest.json", "ft_resources.artifacts", "Manifest"),
    ("<address>/attempts/NNNN/spec.json", "ft_resources.work", "WorkSpec"),
    ("<tenant>/conversations/<line>/<day>/<name>.jsonl", "ft_assets.records.conversations", "Conversation"),
    ("<tenant>/shadows/<line>/<day>/<name>.jsonl", "ft_assets.records.shadows", "ShadowPair"),
    ("<tenant>/submissions/<id>.json", "ft_assets.records.submissions", "Submission"),
    ("<tenant>/outcomes/<id>.json", "ft_assets.records.submissions", "SubmissionOutcome"),
    ("<tenant>/submissions/<id>/alerts/<digest>.json", "ft_assets.records.training_alerts", "TrainingAlert"),
    ("<tenant>/submissions/<id>/pauses/<seq>.json", "ft_assets.records.pauses", "PauseChange"),
    ("<tenant>/lines/<line>/<seq>.json", "ft_assets.control.lines.lines", "PromotionRecord"),
    ("<tenant>/parity/<digest>/<settings>/<seq>.json", "ft_assets.control.parity.records", "ParityRecord"),
    ("<tenant>/usage/<YYYY-MM>/<attempt>.json", "ft_assets.control.metering.usage", "UsageRecord"),
    ("<tenant>/quota/<YYYY-MM>/<seq>.json", "ft_assets.control.metering.quota_log", "QuotaRecord"),
    ("<tenant>/rejections/<adapter>/<digest>.json", "ft_assets.control.rejections.record", "RejectionRecord"),
    ("<tenant>/sweeps/<digest>.json", "ft_assets.records.sweep_decision", "Decision"),
    ("<tenant>/tombstones/<subject>/<seq>.json", "ft_assets.records.tombstones", "Tombstone"),
    ("<tenant>/reviews/<key>/<digest>.json", "ft_assets.control.identity.review", "ReviewRecord"),
    ("shared/serving_drift/<seq>.json", "ft_assets.control.notices.serving_drift", "DriftChange"),
    ("<tenant>/notices/<event>/event.json", "ft_assets.control.notices.event", "Event"),
    ("<dataset>/report/report.json", "ft_assets.workers.datasets.reporting.report", "DatasetReport"),
    ("<eval_report>/report.json", "ft_assets.workers.evals.evidence", "Evidence"),
    ("<adapter>/verdicts.json", "ft_assets.workers.evals.verdict", "Verdict"),
)


def record_page() -> str:
    """The records that the store keeps, field by field."""
    lines = ["# Records", "", "Records are JSON files in the store. They are created once and never changed.", ""]
    for place, module, name in RECORDS:
        model: type[BaseModel] = getattr(importlib.import_module(module), name)
        lines += [f"## {name}", "", f"`{place}`", "", *_docstring(inspect.getdoc(model) or ""), ""]
        described = any(info.description for info in model.model_fields.values())
        lines += ["| field | type | meaning |", "|---|---|---|"] if described else ["| field | type |", "|---|---|"]
        for field, info in model.model_fields.items():
            kind = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", str(info.annotation)).replace("<class '", "").replace("'>", "")
            words = f" {cell(info.description or '')} |" if described else ""
            lines.append(f"| `{info.alias or field}` | `{cell(kind)}` |{words}")
        lines.append("")
    return "\n".join(lines)

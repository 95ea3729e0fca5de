"""What pages say is there: commands, settings, files and variables."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import jsonschema
import pytest
import typer
from pydantic import BaseModel, ValidationError

from docs.site.build import ROOT, as_on_the_site
from docs.site.checks import pages, problems
from docs.site.settings_reference import settings_page
from ft_assets.cli.main import app
from ft_assets.graph.jobs.submissions import fine_tune
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.models import ModelsFile
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.servers import ServersFile
from ft_assets.settings.tenants import TenantsFile
from ft_resources.environment import SECRETS, VARIABLES
from ft_resources.kubernetes.flavours import FlavoursFile
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.strict import parse_yaml

# What a piece of a recipe lacks on a page.
NEEDED = {"key": "example.v1", "base": "hub:org/model@main"}
NEEDED_OF_A_CLUSTER = {"image": "registry.example/ft@sha256:" + "0" * 64}
VALUES = json.loads((ROOT / "k8s/helm/ft-platform/values.schema.json").read_text())


def blocks(language: str) -> Iterator[tuple[Path, str]]:
    """All code blocks of ``language``, with the page that they are on."""
    for page in pages(ROOT):
        for text in re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text(), re.S | re.M):
            yield page, text


def commands() -> Iterator[tuple[Path, list[str]]]:
    """All calls of ``ft`` on all pages, as words."""
    for page, text in blocks("sh"):
        whole = text.replace("\\\n", " ")
        for line in re.sub(r"<<'?END'?.*?^END$", "", whole, flags=re.S | re.M).splitlines():
            for call in re.findall(r"(?:^|[;|(] ?|do |-- |[A-Z]=\w+ )(ft [^;|>&)]+)", line):
                yield page, shlex.split(call, comments=True)[1:]


# What puts a secret into the arguments of a process, in any text of ours.
_ALWAYS = (
    r"--from-literal",
    r"""(-H|--header)[ =]?['"][^'"]*(Bearer|[Aa]uthorization|[Kk]ey|[Tt]oken|TOKEN|Cookie)""",
    r"""(-H|--header)[ =]?[^'"\s@]*([Aa]uthorization|[Kk]ey|[Tt]oken|Cookie):""",
    r"--set(-string)? [\w.]*([Pp]assword|[Tt]oken|[Ss]ecret|[Kk]ey)=",
    r"(login [^|\n]*|sshpass )-p ",
    r"--(docker-)?(api-?key|password|token|client-secret|oauth2-bearer|secret)\b",
    r"psql[^|\n]* (-c|--command) [^|\n]*PASSWORD",
    r"curl [^|\n]*(-u|--user )\w* ?\S+:",
)
_SECRET = r"(KEY|TOKEN|PASSWORD|SECRET)"
# And in a command, where it would be an argument or stay in the shell's history.
_IN_COMMANDS = (
    rf"\$\{{?\w*{_SECRET}\}}?(?!\w)",
    r"\$\((cat |<|openssl rand|ft key create)",
    r"://[^/\s:@]+:[^/\s@]+@",
    r"[?&](api_?key|token)=",
)
_TYPED = rf"\b\w*{_SECRET}=(?![\s$\"'`]|\w+\.key\b)\S"
# These start no process.
_BUILT_IN = re.compile(r"(\w+\(\) ?\{ ?)?(echo|printf|export|read|\w+=)\b")


def on_a_command_line(text: str) -> list[str]:
    """The commands of a shell's ``text`` that have a secret among their arguments, or where one is typed."""
    plain = re.sub(r"<<'?END'?[^\n]*\n.*?^ *END$", "", text.replace("\\\n", " "), flags=re.S | re.M)
    parts = [part.strip(" {}") for part in re.split(r"\|\|?|&&|;|\n|\$ ", plain)]
    found = [part for part in parts if any(re.search(rule, part) for rule in _ALWAYS) or re.search(_TYPED, part)]
    started = [part for part in parts if not _BUILT_IN.match(part)]
    return found + [part for part in started if any(re.search(rule, part) for rule in _IN_COMMANDS)]


@pytest.mark.statistics
def test_no_guide_puts_a_secret_on_a_command_line() -> None:
    """Every user of a machine sees the arguments of all processes."""
    assert [(str(page), line) for page, text in blocks("sh(?:ell)?") for line in on_a_command_line(text)] == []
    texts = [*pages(ROOT), *ROOT.glob("ft_*/**/*.py"), *ROOT.glob("ft_*/**/*.html"), *ROOT.glob("k8s/**/*.[ymt][adp]*")]
    said = {str(file.relative_to(ROOT)): file.read_text() for file in texts if file.is_file()}
    rules = "|".join(f"(?:{rule})" for rule in _ALWAYS)
    assert {name: found for name, text in said.items() if (found := re.findall(f".*(?:{rules}).*", text))} == {}


@pytest.mark.parametrize(
    "command",
    [
        "kubectl create secret generic a --from-literal=b=c",
        'curl https://a -H "Authorization: Bearer $FT_API_KEY"',
        "curl https://a -H 'Authorization: Bearer sk-1'",
        "curl -u me:secret https://a",
        "psql postgresql://me:secret@host/db",
        """psql -h a -c "CREATE ROLE b PASSWORD 'c'\"""",
        "python -m vllm --api-key $SERVER_KEY",
        "kubectl patch secret a -p $SERVER_KEY",
        'kubectl create x --from-file=a="$(cat $SECRETS/a)"',
        "export OPENAI_API_KEY=ft-…",
        "HF_TOKEN=hf_abc ft recipe add a.yaml",
        "docker login --password abc",
        "docker login -u me -p abc",
        "curl https://a -H Authorization:abc",
        'curl https://a --header "PRIVATE-TOKEN: $T"',
        "curl --user me:secret https://a",
        "curl 'https://a?token=abc'",
        "helm install a --set auth.password=b",
        "kubectl create secret docker-registry a --docker-password=b",
    ],
)
def test_each_way_to_put_one_there_is_found(command: str) -> None:
    assert on_a_command_line(f"ls\n{command}\n") != []


@pytest.mark.parametrize(
    "command",
    [
        """printf 'Authorization: Bearer %s' "$FT_API_KEY" | curl https://a -H @-""",
        "openssl rand -hex 32 | kubectl create secret generic a --from-file=token=/dev/stdin",
        "kubectl create secret generic a --from-env-file=/dev/stdin <<END\nb=$(cat $SECRETS/b)\nEND",
        "export OPENAI_API_KEY=$(ft key create acme --name ci)",
        "export FT_SIGNING_KEY=signing.key",
        "read -rs FT_API_KEY && export FT_API_KEY",
    ],
)
def test_ways_past_the_command_line_are_none(command: str) -> None:
    assert on_a_command_line(command) == []


def test_nothing_is_wrong_with_the_pages() -> None:
    assert problems(ROOT) == []


def test_a_link_to_a_page_that_is_made_leads_to_its_entry_in_the_repository_and_to_it_on_the_site() -> None:
    named = set(re.findall(r"reference/([\w-]+)\.md", (ROOT / "docs/mkdocs.yml").read_text()))
    made = {name for name in named if not (ROOT / f"docs/reference/{name}.md").exists()}
    entries = set(re.findall(r"^## (.+)$", (ROOT / "docs/reference/made.md").read_text(), re.M))
    assert entries == made
    linked = {name for page in pages(ROOT) for name in re.findall(r"made\.md#([\w-]+)", page.read_text())}
    assert linked <= made
    assert (
        as_on_the_site("[a](../reference/made.md#recipe), [b](made.md#cli)")
        == "[a](../reference/recipe.md), [b](cli.md)"
    )


def test_a_long_line_a_lost_picture_and_a_lost_file_are_told(tmp_path: Path) -> None:
    (tmp_path / "docs/decisions").mkdir(parents=True)
    (tmp_path / "docs/mkdocs.yml").write_text("nav: [a.md]")
    (tmp_path / "docs/decisions/index.md").write_text("")
    page = f"{'x' * 101}\n\n![lost](lost.png)\n\n`ft_assets/lost.py` [unmade](unmade.md#a)\n"
    (tmp_path / "docs/a.md").write_text(page)
    (tmp_path / "docs/alone.md").write_text("# Alone\n")
    for name in ("README.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text("[lost](docs/lost.md)\n")
    found = problems(tmp_path)
    for words in (
        "101 characters",
        "lost.png",
        "ft_assets/lost.py",
        "no docs/lost.md",
        "no unmade.md",
        "alone.md: no menu",
    ):
        assert any(words in problem for problem in found), words


def test_every_command_on_a_page_is_one_of_ft_with_options_that_it_has() -> None:
    found = list(commands())
    assert len(found) > 60
    for page, words in found:
        command: Any = typer.main.get_command(app)
        for word in words:
            if not hasattr(command, "commands"):
                break
            assert word in command.commands, f"{page.name}: ft {' '.join(words)}"
            command = command.commands[word]
        known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
        unknown = [word for word in words if word.startswith("--") and word not in known]
        assert not unknown, f"{page.name}: {command.name} {words}"


def test_every_piece_of_settings_on_a_page_is_valid() -> None:
    models: tuple[tuple[type[BaseModel], dict[str, Any]], ...] = (
        (Recipe, NEEDED),
        (DatasetPolicy, {}),
        (TenantsFile, {}),
        (ModelsFile, {}),
        (ServersFile, {}),
        (KubernetesSettings, NEEDED_OF_A_CLUSTER),
        (FlavoursFile, {}),
    )
    count = 0
    for page, text in blocks("yaml"):
        value = parse_yaml(
            text.replace("sha256:…", "sha256:" + "0" * 64).replace('tag: "…"', f'tag: "{"0" * 64}"'), page.name
        )
        if "ops" in value:
            assert dg.validate_run_config(fine_tune, value), page.name
            continue
        fitting = [(model, needed) for model, needed in models if set(value) <= set(model.model_fields)]
        if not fitting and set(value) <= set(VALUES["properties"]):
            jsonschema.validate(value, VALUES | {"required": []})
            continue
        if not fitting:
            # A suite's task file; other tests read those.
            assert {"kind", "dataset_path", "harmful"} & set(value), f"{page.name}: nobody reads {sorted(value)}"
            continue
        wrong = [_wrong(model, {**needed, **value}) for model, needed in fitting]
        assert "" in wrong, f"{page.name}: {wrong}"
        count += 1
    assert count > 25


def _wrong(model: type[BaseModel], value: dict[str, Any]) -> str:
    try:
        model.model_validate_json(json.dumps(value))
    except ValidationError as error:
        # Examples show one block; what it needs in another one is the rule of the recipe as a whole.
        found = [each for each in error.errors() if each["loc"] and each["type"] != "missing"]
        return "; ".join(f"{each['loc']}: {each['msg']}" for each in found)
    return ""


@pytest.mark.parametrize("model", [Recipe, DatasetPolicy, TenantsFile])
def test_the_reference_has_every_setting_with_its_words(model: type[BaseModel]) -> None:
    page = settings_page("Title", model, "Intro.")
    schema = model.model_json_schema()
    for part in (schema, *schema["$defs"].values()):
        for name in part.get("properties", {}):
            row = re.search(rf"^\| `{name}` \|.*\| (.*) \|$", page, re.M)
            assert row, f"{part['title']}.{name} is not on the page"
            assert row[1].strip(), f"{part['title']}.{name} says nothing of itself"


def test_the_variables_that_are_known_are_those_of_the_reference_and_of_the_code() -> None:
    variable = r"\bFT_[A-Z]+(?:_[A-Z]+)*\b"
    page = set(re.findall(variable, (ROOT / "docs/reference/environment.md").read_text()))
    assert page == VARIABLES
    rooms = ("ft_assets", "ft_resources", "ft_sensors", "benchmarks", "tests/cluster", "tests/resources/launchers")
    code = "".join(path.read_text() for room in rooms for path in (ROOT / room).rglob("*.py"))
    read = {name for name in re.findall(variable, code) if not name.startswith(SECRETS)}
    assert read == VARIABLES


def test_every_page_that_the_code_names_is_there() -> None:
    lost = [
        (path.relative_to(ROOT).as_posix(), name)
        for room in ("ft_assets", "ft_resources", "ft_sensors", "k8s")
        for path in (ROOT / room).rglob("*")
        if path.suffix in {".py", ".yaml", ".md"}
        for name in re.findall(r"(?<![\w./-])docs/[\w/-]+\.md", path.read_text())
        if not (ROOT / name).exists()
    ]
    assert lost == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 900

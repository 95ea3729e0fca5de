"""``python -m docs.site.build``: the documentation as a site, offline, in ``build/docs/site``.

Pages of ``docs/`` and the generated reference are laid side by side in ``build/docs/pages``. Then zensical builds them
with warnings as errors: it finds links to pages and headings that are not there. ``docs.site.checks`` finds the rest.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from docs.site.checks import problems
from docs.site.code_reference import api_page, asset_page, command_page, record_page
from docs.site.layouts import layouts_page
from docs.site.models_page import models_page
from docs.site.settings_reference import settings_page

API = "ft_assets.api"
ROOT = Path(__file__).resolve().parents[2]
DOCS, BUILD = ROOT / "docs", ROOT / "build" / "docs"


def reference_pages() -> dict[str, str]:
    """The generated pages: path below ``docs/`` to Markdown."""
    from ft_assets.cli.main import app
    from ft_assets.definitions import defs
    from ft_assets.settings.dataset.policy import DatasetPolicy
    from ft_assets.settings.models import ModelsFile
    from ft_assets.settings.recipe.recipe import Recipe
    from ft_assets.settings.servers import ServersFile
    from ft_assets.settings.tenants import TenantsFile
    from ft_resources.kubernetes.flavours import FlavoursFile
    from ft_resources.kubernetes.settings import KubernetesSettings

    pages = {
        "layouts": layouts_page(),
        "models": models_page(),
        "recipe": settings_page("Recipe", Recipe, "A recipe is a YAML file. `ft recipe add FILE` registers it."),
        "dataset-policy": settings_page(
            "Dataset policy", DatasetPolicy, "`dataset.yaml`, given with `ft dataset add FILE --policy dataset.yaml`."
        ),
        "tenants": settings_page(
            "tenants.yaml", TenantsFile, "Limits, quotas and permissions; `FT_TENANTS` names the file."
        ),
        "offered-models": settings_page(
            "models.yaml", ModelsFile, "Models that jobs of the HTTP API may name; `FT_MODELS` names the file."
        ),
        "servers": settings_page(
            "servers.yaml", ServersFile, "Servers of models that others start; `FT_SERVERS` names the file."
        ),
        "kubernetes-settings": settings_page(
            "kubernetes.yaml", KubernetesSettings, "The cluster's launcher; `FT_KUBERNETES` names the file."
        ),
        "flavours": settings_page(
            "flavours.yaml", FlavoursFile, "Kinds of nodes for Kueue; `ft cluster` is given the file with `--flavours`."
        ),
        "cli": command_page(app),
        "assets": asset_page(defs),
        "records": record_page(),
        "python": api_page(importlib.import_module(API)),
    }
    return {f"reference/{name}.md": text for name, text in pages.items()}


def as_on_the_site(text: str) -> str:
    """A page whose links lead where the site has what they mean: links to ``reference/made.md#NAME``, where readers of
    the repository land, to the made page NAME, and those to the guide for contributors to its copy."""
    text = text.replace("](../CONTRIBUTING.md)", "](contributing.md)")
    return re.sub(r"(\]\((?:\.\./)?(?:reference/)?)made\.md#([\w-]+)\)", r"\1\2.md)", text)


def main() -> int:
    """Build the site; the exit code is 1 where a page is wrong."""
    os.environ.setdefault("FT_STORE", str(BUILD / "store"))
    found = problems(ROOT)
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        return 1
    shutil.rmtree(BUILD, ignore_errors=True)
    pages = BUILD / "pages"
    shutil.copytree(DOCS, pages, ignore=shutil.ignore_patterns("*.py", "__pycache__", "mkdocs.yml"))
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (pages / "contributing.md").write_text(guide.replace("](docs/", "]("), encoding="utf-8")
    for page in pages.rglob("*.md"):
        page.write_text(as_on_the_site(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name, text in reference_pages().items():
        (pages / name).parent.mkdir(exist_ok=True)
        (pages / name).write_text(text, encoding="utf-8")
    shutil.copy(DOCS / "mkdocs.yml", BUILD / "mkdocs.yml")
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "-f", str(BUILD / "mkdocs.yml")]
    done = subprocess.run(command, check=False)
    if done.returncode == 0:
        print(f"the site: {BUILD / 'site' / 'index.html'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

"""Settings that come from environment variables."""

import difflib
import os
import sys
from collections.abc import Iterable

from ft_resources.errors import UserError

DEFAULT_STORE = ".ft/store"
VARIABLES = frozenset(
    {
        "FT_STORE",
        "FT_STATE",
        "FT_CACHE",
        "FT_CACHE_MB",
        "FT_ACTOR",
        "FT_TENANT",
        "FT_TENANTS",
        "FT_KUBERNETES",
        "FT_LAUNCHER",
        "FT_TRACKING",
        "FT_METERING_DB",
        "FT_ACCESS_DB",
        "FT_SERVER",
        "FT_API_KEY",
        "FT_MODELS",
        "FT_SERVERS",
        "FT_VLLM_BASE",
        "FT_SIGNING_KEY",
        "FT_TRUSTED_KEYS",
        "FT_MAX_PAIRS",
        "FT_SENSOR_SECONDS",
        "FT_REPORTS_URL",
        "FT_PUBLIC_URL",
        "FT_OIDC_CLIENT_SECRET",
        "FT_PAGES_TOKEN",
        "FT_SUITES_URL",
        "FT_CURATION_PROCESSES",
        "FT_CURATION_MEMORY_MB",
        "FT_CURATION_SECONDS",
        "FT_CURATION_ENGINE",
        "FT_PACK_PROCESSES",
        "FT_PACK_ENGINE",
        "FT_METRICS_PORT",
        "FT_NODE",
        "FT_RUN_CODE",
        "FT_NOTIFY_HOSTS",
        "FT_SMTP_HOST",
        "FT_SMTP_PORT",
        "FT_SMTP_FROM",
        "FT_SMTP_USER",
        "FT_SMTP_PASSWORD",
        "FT_SMTP_STARTTLS",
        "FT_SCRATCH",
        "FT_WORKER_LOG",
        "FT_WORKER_FOLDER",
        "FT_SESSION_POLICY",
        "FT_WARM_CACHE",
        "FT_SERVING_KEY",
        "FT_LLAMA_CPP",
        "FT_LLM_COMPRESSOR",
        "FT_WORKER_PYTHONS",
        "FT_COMMIT",
        "FT_REAL_DATA",
        "FT_VLLM_PYTHON",
        "FT_BENCH_ROWS",
        "FT_BENCH_SEED",
        "FT_CLUSTER_TEST",
        "FT_CLUSTER_IMAGE",
        "FT_CLUSTER_WORKER_IMAGE",
        "FT_IMAGE_BASE",
        "FT_IMAGE_ARGS",
    }
)
"""Every variable of the platform; docs/reference/environment.md explains them."""
LLAMA_CPP = "FT_LLAMA_CPP"
"""The folder of llama.cpp's programs on a worker."""
LLM_COMPRESSOR = "FT_LLM_COMPRESSOR"
"""The Python of an environment with llm-compressor on a worker."""
WORKER_PYTHONS = "FT_WORKER_PYTHONS"
"""The Python of each kind of work, for the launcher on this machine."""
SECRETS = ("FT_WEBHOOK_", "FT_JUDGE_KEY_", "FT_SOURCE_", "FT_SERVER_KEY_")
"""Prefixes of variables whose names settings choose."""


def default_store_url() -> str:
    """The store's URL: ``FT_STORE``, else a folder below the working directory."""
    return os.environ.get("FT_STORE", DEFAULT_STORE)


def suites_url() -> str:
    """Where ``ft suite install`` fetches OWNER/REPO/COMMIT/PATH. Raises UserError if it is not an http(s) URL."""
    url = os.environ.get("FT_SUITES_URL") or "https://raw.githubusercontent.com"
    if not url.startswith(("https://", "http://")):
        raise UserError(
            f"{url!r} does not begin with https:// or http://", where="FT_SUITES_URL", remedy="Correct it, or unset it."
        )
    return url.rstrip("/")


def whole_number(variable: str, default: int, *, at_least: int) -> int:
    """The integer in an environment variable. Raises UserError for anything else, and below ``at_least``."""
    text = os.environ.get(variable) or str(default)
    if not text.isdecimal() or int(text) < at_least:
        raise UserError(
            f"{text!r} is not a whole number of at least {at_least}", where=variable, remedy="Correct it, or unset it."
        )
    return int(text)


def warn_of_unknown_variables() -> None:
    """Name each ``FT_…`` variable that means nothing on stderr: a misspelt one would silently do nothing."""
    for name in sorted(_unknown(os.environ)):
        close = difflib.get_close_matches(name, VARIABLES, n=1)
        remedy = f"did you mean {close[0]}?" if close else "see docs/reference/environment.md"
        print(f"warning: the environment variable {name} is not known and has no effect; {remedy}", file=sys.stderr)


def _unknown(names: Iterable[str]) -> set[str]:
    ours = {name for name in names if name.startswith("FT_")} - VARIABLES
    # Kubernetes sets such variables for each service whose name begins with "ft-".
    services = tuple(name.removesuffix("SERVICE_HOST") for name in ours if name.endswith("_SERVICE_HOST"))
    return {name for name in ours if not name.startswith((*SECRETS, *services))}

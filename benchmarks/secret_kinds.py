"""How many kinds of secrets are found whole, and how often code is taken for one.

Sixty kinds, each written as its issuer documents it, with random characters from a seed: no key of anybody. Each
stands in prose, in code, in JSON and in a log line. A kind counts as found if at least nine in ten of its examples
are covered whole. Kinds without a form of their own (``named``) stand beside the name that people give them, as no
scanner could know them otherwise.
"""

import base64
import json
import random
import re
import sysconfig
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.table import Figure, goal_figure
from ft_assets.settings.dataset.policy import PersonalDataSettings
from ft_assets.workers.datasets.screening.personal import screen

_ALPHABETS = {
    "a": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    "w": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
    "b": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "d": "0123456789",
    "l": "abcdefghijklmnopqrstuvwxyz0123456789",
    "U": "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "T": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
}
_JWT_HEAD = "eyJhbGciOiJIUzI1NiJ9.eyJ"
# {letter count}: so many characters of the alphabet; {uuid}. In parts, so that no scanner takes them for keys.
KINDS = {
    "AWS access key id": "AK" + "IA{T16}",
    "GitHub classic token": "gh" + "p_{a36}",
    "GitHub fine-grained token": "github" + "_pat_{a22}_{a59}",
    "GitHub app token": "gh" + "s_{a36}",
    "GitLab token": "gl" + "pat-{w20}",
    "Slack bot token": "xo" + "xb-{d12}-{d12}-{a24}",
    "Slack app token": "xa" + "pp-1-{U11}-{d13}-{h64}",
    "Slack webhook": "https://hooks.slack" + ".com/services/T{U10}/B{U10}/{a24}",
    "Discord webhook": "https://discord" + ".com/api/webhooks/{d18}/{w68}",
    "Discord bot token": "MTA" + "4NTY3ODkwMTIzNDU2Nzg5.G{a5}.{w38}",
    "Telegram bot token": "{d10}:A" + "A{w33}",
    "Google API key": "AI" + "za{w35}",
    "Google OAuth secret": "GOC" + "SPX-{w28}",
    "Google OAuth token": "ya" + "29.a0{w160}",
    "Stripe secret key": "sk_" + "live_{a24}",
    "Stripe restricted key": "rk_" + "live_{a99}",
    "Stripe webhook secret": "wh" + "sec_{a32}",
    "Square token": "sq0" + "csp-{w43}",
    "Twilio account SID": "A" + "C{h32}",
    "Twilio API key SID": "S" + "K{h32}",
    "SendGrid": "S" + "G.{w22}.{w43}",
    "Mailgun": "ke" + "y-{l32}",
    "Mailchimp": "{h32}-u" + "s21",
    "Brevo": "xkey" + "sib-{h64}-{a16}",
    "Shopify": "shp" + "at_{h32}",
    "npm": "np" + "m_{a36}",
    "PyPI": "py" + "pi-AgEIcHlwaS5vcmc{w150}",
    "RubyGems": "ruby" + "gems_{h48}",
    "NuGet": "oy" + "2{l43}",
    "Docker Hub": "dckr" + "_pat_{w27}",
    "DigitalOcean": "do" + "p_v1_{h64}",
    "Databricks": "da" + "pi{h32}",
    "HashiCorp Vault": "hv" + "s.{w95}",
    "Terraform Cloud": "{a14}.atlas" + "v1.{w67}",
    "Grafana service account": "gl" + "sa_{a32}_{h8}",
    "New Relic": "NR" + "AK-{U27}",
    "Sentry user token": "sntry" + "u_{h64}",
    "Dynatrace": "dt0" + "c01.{U24}.{U64}",
    "Doppler": "dp." + "pt.{a43}",
    "Linear": "lin" + "_api_{a40}",
    "Notion": "ntn" + "_{d11}{a35}",
    "Airtable": "pa" + "t{a14}.{h64}",
    "Figma": "fig" + "d_{w40}",
    "Postman": "PM" + "AK-{h24}-{h34}",
    "PlanetScale": "pscale" + "_tkn_{w43}",
    "Supabase": "sb" + "p_{h40}",
    "Azure client secret": "{a3}8" + "Q~{w34}",
    "OpenAI": "sk-" + "proj-{w74}T3BlbkFJ{w74}",
    "Anthropic": "sk-" + "ant-api03-{w93}AA",
    "Hugging Face": "h" + "f_{a34}",
    "Groq": "gs" + "k_{a52}",
    "Replicate": "r" + "8_{a37}",
    "xAI": "xa" + "i-{a80}",
    "Perplexity": "pp" + "lx-{a48}",
    "JSON web token": _JWT_HEAD + "{a60}.{w43}",
    "Authorization: Bearer": "{w40}",
    "Authorization: Basic": "",
    "AWS secret access key": "{b40}",
    "Datadog API key": "{h32}",
    "Cohere": "{a40}",
}
_NAMED = {
    "Authorization: Bearer": ("Authorization: Bearer {}", "'Authorization': 'Bearer {}'"),
    "Authorization: Basic": ("Authorization: Basic {}", '"Authorization": "Basic {}"'),
    "AWS secret access key": ("aws_secret_access_key = {}", 'AWS_SECRET_ACCESS_KEY="{}"'),
    "Datadog API key": ("DD_API_KEY={}", 'api_key: "{}"'),
    "Cohere": ("COHERE_API_KEY={}", 'cohere_api_key = "{}"'),
}
_AROUND = (
    "Please rotate {} before Monday.",
    'client = Client("{}", timeout=30)',
    '{{"token_of_the_service": "{}", "retries": 3}}',
    "2026-01-05 12:30:01 INFO sent {} to host 7",
)
_SEED = 7
_EACH = 25
_PIECE = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Kinds:
    """``found``: the share of each kind's examples that were covered whole; ``examples``: how many were, of all."""

    found: dict[str, float]
    examples: int

    @property
    def share(self) -> float:
        return sum(share >= 0.9 for share in self.found.values()) / len(self.found)


def figures() -> list[Figure]:
    """Kinds found, and precision: right findings among those and what is wrongly found in code."""
    kinds = find_kinds(_SEED)
    wrong = false_findings(code_without_secrets(_SEED, (Path(__file__).parents[1] / "ft_assets",)))
    precision = kinds.examples / (kinds.examples + len(wrong))
    return [
        goal_figure("secret_kinds_found", f"kinds of secrets found, of {len(KINDS)}", kinds.share, 0.95),
        goal_figure("secret_precision", "  precision, with 17 MB of code that has none", precision, 0.99),
    ]


def find_kinds(seed: int) -> Kinds:
    """Search for 25 examples of each kind, made from ``seed``."""
    draw = random.Random(seed)
    texts, places = [], []
    for name, form in KINDS.items():
        for number in range(_EACH):
            value = _fill(form, draw) if form else _basic(draw)
            around = _NAMED.get(name, _AROUND)
            text = around[number % len(around)].format(value)
            start = text.index(value)
            texts.append(text)
            # What is secret in a URL is what follows the host.
            low = start + value.rfind("/api/webhooks/") + 14 if "/api/webhooks/" in value else start
            places.append((low + (value.rfind("/T") if "hooks.slack" in value else 0), start + len(value)))
    covered = [False] * len(texts)
    findings = screen(pa.array(texts, pa.string()), PersonalDataSettings(types=("secret",))).findings.to_pylist()
    for each in findings:
        low, high = places[each["index"]]
        covered[each["index"]] |= each["start"] <= low and high <= each["end"]
    shares = [sum(covered[at : at + _EACH]) / _EACH for at in range(0, len(texts), _EACH)]
    return Kinds(found=dict(zip(KINDS, shares, strict=True)), examples=sum(covered))


def false_findings(texts: list[str]) -> list[str]:
    """What is taken for a secret in ``texts``, which hold none."""
    array = pa.array(texts, pa.string())
    findings = screen(array, PersonalDataSettings(types=("secret",))).findings.to_pylist()
    return [texts[each["index"]][each["start"] : each["end"]] for each in findings]


def code_without_secrets(seed: int, folders: tuple[Path, ...]) -> list[str]:
    """Python sources of the standard library and of ``folders``, and hashes, ids and lock files made from ``seed``."""
    texts = []
    for folder in (Path(sysconfig.get_paths()["stdlib"]), *folders):
        for path in sorted(folder.rglob("*.py")):
            if "site-packages" not in path.parts and "test" not in str(path.relative_to(folder)):
                text = path.read_text("utf-8", errors="replace")
                texts += [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    return [*texts, *_made(random.Random(seed))]


def _made(draw: random.Random) -> Iterator[str]:
    for _ in range(2_000):
        name, version = _fill("{l8}", draw), f"{draw.randrange(20)}.{draw.randrange(40)}.{draw.randrange(9)}"
        yield f"commit {_fill('{h40}', draw)}\nAuthor: someone\n\n    Mend {name} ({_fill('{h7}', draw)})"
        yield f'"{name}": {{"version": "{version}", "integrity": "sha512-{_fill("{b86}", draw)}=="}},'
        yield f"{name}=={version} \\\n    --hash=sha256:{_fill('{h64}', draw)}"
        yield f'id = "{_uuid(draw)}"\nmd5 = "{_fill("{h32}", draw)}"\netag: W/"{_fill("{h16}", draw)}"'
        yield "data:image/png;base64," + _fill("{b400}", draw) + "=="
        yield json.dumps({"id": f"msg_{_fill('{a24}', draw)}", "at": draw.randrange(10**12), "ref": _uuid(draw)})
        yield f"https://cdn.host.org/{_fill('{h2}', draw)}/{_fill('{h40}', draw)}/{name}-{version}.tar.gz"
        yield f"docker pull registry/{name}@sha256:{_fill('{h64}', draw)}"


def _fill(form: str, draw: random.Random) -> str:
    return re.sub(r"\{(\w)(\d+)\}", lambda field: "".join(draw.choices(_ALPHABETS[field[1]], k=int(field[2]))), form)


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


def _basic(draw: random.Random) -> str:
    return base64.b64encode(_fill("user{l4}:{a12}", draw).encode()).decode()

"""S3 access policies as values.

Two limits apply together. The tenant's *role* is the security boundary: only that tenant's service account can assume
it, and it covers the tenant's prefix and ``shared``. The *session policy* narrows one attempt to its inputs and its own
folder (a session may do what both allow:
https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html). Workers apply the session
policy to themselves, so it guards against our mistakes; the role guards against compromised workers.
"""

import json
from typing import Any
from urllib.parse import urlparse

from ft_resources.artifacts import MANIFEST, Address
from ft_resources.errors import UserError
from ft_resources.store_layout import Layout
from ft_resources.work import WorkSpec

MAX_CHARACTERS = 2048
"""Of an inline session policy."""
_FINGERPRINT = 20
"""Characters of a fingerprint in a policy: 80 bits, as policies must be short."""
SHARED = "shared"
BASES = f"{SHARED}/base_model"
"""Bases that every tenant may read."""
WORKED = (
    *("dataset", "base_model", "baseline_report", "token_pack", "reference_logps", "checkpoint", "eval_report"),
    *("adapter", "ungated", "merged_model", "quantized_model"),
)
"""Folders of a tenant with what its workers make (``ft_assets.worker.WORK``)."""
CACHE = "cache"
"""Folder of a tenant with chunks that curation prepared, for the dataset's next version."""
_ORCHESTRATORS = ("claim", "spec", "wait", "launch", "stop", "place")
"""Records of an attempt that the control plane writes and bills by."""
_PERSONS = ("waivers", "erased")
"""Folders next to an artifact with people's decisions about it: waivers and erasures."""
_PASSING = ("saves", "books", "kept")
"""Folders of an attempt whose files a worker replaces and, with its artifact there, removes (``worker.drop_saves``)."""
_ANCESTRY = frozenset({"adapter", "ungated", "eval_report"})
"""Assets whose workers read what their inputs were made from: an adapter's lineage, the author of a judged dataset."""
_VERSION = "2012-10-17"


def session_policy(spec: WorkSpec, kms_key: str | None = None) -> str | None:
    """What the attempt of ``spec`` may do in its bucket, as JSON of at most 2,048 characters; None unless it is on S3.

    ``kms_key`` is the ARN of the bucket's encryption key, if it is not S3's own.
    If there are too many inputs to list, reading is allowed in their assets' folders, or else in the tenant's prefix.
    Where names are long, writing is then allowed in the whole folder of the artifact. Raises UserError for a URL that
    is longer than that leaves room for.
    """
    if not spec.store_url.startswith("s3://"):
        return None
    root = _tenants_root(spec.store_url, spec.store_layout)
    addresses = sorted({ref.address for ref in spec.inputs.values()})
    exact = [_short(Address.parse(address)) for address in addresses if not address.startswith(f"{SHARED}/")]
    by_asset = sorted({f"{Address.parse(address).tenant}/{Address.parse(address).asset}/*" for address in addresses})
    narrow = (_session(root, spec, each, kms_key) for each in (exact, by_asset, [f"{spec.address.tenant}/*"]))
    for found in (*narrow, _widest_session(root, spec, kms_key)):
        policy = json.dumps(found, separators=(",", ":"))
        if len(policy) <= MAX_CHARACTERS:
            return policy
    raise UserError(
        "the store's URL is too long for the policy that a worker's session has",
        where=spec.store_url,
        remedy="Give the store a shorter prefix.",
    )


def role_policy(store_url: str, layout: Layout, tenant: str, kms_key: str | None = None) -> dict[str, Any]:
    """Maximum rights of a tenant's role: read its own prefix and ``shared``, and write its assets' folders.

    Submissions, promotions, usage, quota and refunds are in the same prefix, as are the control plane's records of each
    attempt and people's decisions about an artifact. The role may write none of them, so a compromised worker cannot
    change what is billed or in production, nor sign for a person. It may write a manifest only by a request that S3
    refuses where an object exists, and not delete one: what is published stays as it is
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html).
    """
    root = _tenants_root(store_url, layout)
    bucket = root.partition("/")[0]
    inside = root.partition("/")[2]
    folders = [f"{inside}/{name}/*".lstrip("/") for name in (tenant, SHARED)]
    artifacts = [f"{root}/{tenant}/{asset}/*" for asset in WORKED]
    return {
        "Version": _VERSION,
        "Statement": [
            _allow(["s3:GetObject"], [f"{root}/{tenant}/*", f"{root}/{SHARED}/*"]),
            _allow(
                ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
                [
                    f"{root}/{tenant}/{CACHE}/*",
                    # Not manifests, which are directly in the artifact's folder.
                    *(f"{artifact}/{folder}/*" for artifact in artifacts for folder in ("attempts", "w*")),
                ],
            ),
            {
                **_allow(["s3:PutObject"], [f"{artifact}/{MANIFEST}" for artifact in artifacts]),
                "Condition": {"Null": {"s3:if-none-match": "false"}},
            },
            {
                **_allow(
                    ["s3:PutObject", "s3:DeleteObject"],
                    [
                        *(f"{root}/{tenant}/*/attempts/*/{name}.json" for name in _ORCHESTRATORS),
                        *(f"{root}/{tenant}/*/{folder}/*" for folder in _PERSONS),
                    ],
                ),
                "Effect": "Deny",
            },
            _listing(bucket, folders),
            *_of_key(kms_key),
        ],
    }


def bases_policy(store_url: str, layout: Layout, kms_key: str | None = None) -> str | None:
    """What a pod may do that fetches shared bases, whatever its role may: read them. None unless it is on S3."""
    if not store_url.startswith("s3://"):
        return None
    root = _tenants_root(store_url, layout)
    bucket, _, inside = root.partition("/")
    statements = [
        _allow(["s3:GetObject"], [f"{root}/{BASES}/*"]),
        _listing(bucket, [f"{inside}/{BASES}/*".lstrip("/")]),
        *_of_key(kms_key),
    ]
    return json.dumps({"Version": _VERSION, "Statement": statements}, separators=(",", ":"))


def trust_policy(
    *, provider_arn: str, issuer: str, audience: str, namespace: str, service_account: str
) -> dict[str, Any]:
    """Who may assume a tenant's role: the tokens of one service account, for one audience.

    Args:
        provider_arn: the cluster's OIDC provider as IAM knows it.
        issuer: its URL without the scheme.
    """
    subject = f"system:serviceaccount:{namespace}:{service_account}"
    return {
        "Version": _VERSION,
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Federated": provider_arn},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {"StringEquals": {f"{issuer}:sub": subject, f"{issuer}:aud": audience}},
            }
        ],
    }


def _session(root: str, spec: WorkSpec, readable: list[str], kms_key: str | None) -> dict[str, Any]:
    bucket, _, inside = root.partition("/")
    own = _short(spec.address).removesuffix("/*")
    writer = f"w{spec.attempt:04d}-*"
    kept = [f"{spec.address.tenant}/{CACHE}/*"] if spec.asset == "dataset" else []
    tenant = spec.address.tenant
    # Manifests, and erasures' records of them; no rows and no weights.
    records = [f"{tenant}/*/{MANIFEST}", f"{tenant}/*/erased/*"] if spec.asset in _ANCESTRY else []
    reads = [*readable, f"{SHARED}/*", f"{own}/*", *kept, *records]
    writes = [f"{spec.attempt_path}/*", f"{spec.address}/{writer}", f"{spec.address}/{MANIFEST}", *kept]
    # Once the artifact exists, saves of earlier attempts are useless.
    drops = [f"{spec.address}/{writer}", *(f"{own}/attempts/*/{folder}/*" for folder in _PASSING)]
    # S3 answers 404 for missing objects only to callers that may list.
    folders = [f"{tenant}/*", f"{SHARED}/*"] if records else [f"{own}/*"]
    listed = [f"{inside}/{folder}".lstrip("/") for folder in folders]
    return {
        "Version": _VERSION,
        "Statement": [
            _allow(["s3:GetObject"], [f"{root}/{path}" for path in reads]),
            _allow(["s3:PutObject", "s3:AbortMultipartUpload"], [f"{root}/{path}" for path in writes]),
            _allow(["s3:DeleteObject"], [f"{root}/{path}" for path in drops]),
            _listing(bucket, listed),
            *_of_key(kms_key),
        ],
    }


def _widest_session(root: str, spec: WorkSpec, kms_key: str | None) -> dict[str, Any]:
    """Reading all that the role may read, and writing the artifact's folder: the least that is said in few words."""
    bucket, _, inside = root.partition("/")
    folders = [f"{spec.address.tenant}/*", f"{SHARED}/*"]
    kept = [f"{spec.address.tenant}/{CACHE}/*"] if spec.asset == "dataset" else []
    written = [f"{root}/{path}" for path in (_short(spec.address), *kept)]
    return {
        "Version": _VERSION,
        "Statement": [
            _allow(["s3:GetObject"], [f"{root}/{folder}" for folder in folders]),
            _allow(["s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"], written),
            _listing(bucket, [f"{inside}/{folder}".lstrip("/") for folder in folders]),
            *_of_key(kms_key),
        ],
    }


def _short(address: Address) -> str:
    return f"{address.tenant}/{address.asset}/{address.fingerprint[:_FINGERPRINT]}*/*"


def _tenants_root(store_url: str, layout: Layout) -> str:
    """Bucket and prefix of the tenants' folders, such as ``bucket/prefix/tenants``."""
    url = urlparse(store_url)
    return f"{url.netloc}{url.path}".rstrip("/") + f"/{layout.prefix}".rstrip("/")


def _allow(actions: list[str], paths: list[str]) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": [f"arn:aws:s3:::{path}" for path in paths]}


def _of_key(kms_key: str | None) -> list[dict[str, Any]]:
    """Reading and writing objects that are encrypted with a key of KMS, in parts too
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html#mpuAndPermissions)."""
    if kms_key is None:
        return []
    return [{"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": [kms_key]}]


def _listing(bucket: str, folders: list[str]) -> dict[str, Any]:
    listing = _allow(["s3:ListBucket"], [bucket])
    return {**listing, "Condition": {"StringLike": {"s3:prefix": folders}}}

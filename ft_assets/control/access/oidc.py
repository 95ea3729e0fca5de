"""OpenID Connect: the URL at which a person signs in, and the identity of a person who returns.

The authorization code flow with PKCE (RFC 7636), a state and a nonce, as OpenID Connect Core 1.0 has it in section 3.1.
The ID token's signature and claims are checked by joserfc, against the keys that the issuer publishes.
"""

import base64
import hashlib
import re
import time
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import quote_plus, urlencode

import httpx
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import Key, KeySet, OctKey, import_key

from ft_resources.errors import DatabaseUnavailable, Misconfigured, NotIdentified

# Signatures that only the issuer can make: neither "none" nor HMAC with a shared secret.
_SIGNATURES = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
# The kind of key that each of them is made with, by its first two letters.
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
# RFC 6749, section 5.2: the server's own mistakes, that no new sign-in mends.
_OF_CLIENT = {"invalid_client", "unauthorized_client", "invalid_request", "invalid_scope", "unsupported_grant_type"}
_TIMEOUT_S = 10.0
# Allowed clock skew.
_LEEWAY_S = 60
_KEPT_S = 3600.0
# A token with an unknown key makes us fetch the keys again. Anybody can write such tokens, so not more often than this.
_AGAIN_S = 10.0


class ProviderUnavailable(DatabaseUnavailable):
    """The identity provider did not answer, or not as OpenID Connect says."""


@dataclass(frozen=True, kw_only=True)
class Client:
    """This server, as the provider knows it."""

    issuer: str
    client_id: str
    secret: str
    redirect_uri: str
    scopes: tuple[str, ...]


@dataclass
class Provider:
    """A provider's published metadata; fetched on demand, and cached for an hour."""

    issuer: str
    _metadata: dict[str, Any] = field(default_factory=dict)
    _keys: KeySet | None = None
    _metadata_at: float = float("-inf")
    _keys_at: float = float("-inf")
    _lock: Lock = field(default_factory=Lock)

    def metadata(self) -> dict[str, Any]:
        """Its metadata. Raises ProviderUnavailable."""
        with self._lock:
            if time.monotonic() - self._metadata_at > _KEPT_S:
                found = _json(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
                wanted = ("authorization_endpoint", "token_endpoint", "jwks_uri")
                if found.get("issuer") != self.issuer or not all(isinstance(found.get(name), str) for name in wanted):
                    raise _unavailable("its metadata is incomplete or belongs to another issuer")
                self._metadata, self._metadata_at = found, time.monotonic()
            return self._metadata

    def keys(self, *, anew: bool = False) -> KeySet:
        """The provider's signing keys; ``anew`` bypasses the cache. Raises ProviderUnavailable."""
        address = self.metadata()["jwks_uri"]
        with self._lock:
            age = time.monotonic() - self._keys_at
            if self._keys is None or age > (_AGAIN_S if anew else _KEPT_S):
                listed = _json(address).get("keys")
                usable = [key for each in listed if (key := _usable(each))] if isinstance(listed, list) else []
                if not usable:
                    raise _unavailable("none of its keys can be used")
                self._keys, self._keys_at = KeySet(usable), time.monotonic()
            return self._keys


def authorization_url(provider: Provider, client: Client, *, state: str, nonce: str, verifier: str) -> str:
    """Where the person signs in. ``state``, ``nonce`` and ``verifier`` are random texts of this sign-in only."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.redirect_uri,
        "scope": " ".join(client.scopes),
        "state": state,
        "nonce": nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    address: str = provider.metadata()["authorization_endpoint"]
    return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}"


def claims_of(provider: Provider, client: Client, *, code: str, nonce: str, verifier: str) -> dict[str, Any]:
    """The checked claims of the ID token that ``code`` stands for.

    Raises NotIdentified if the provider refuses the code, or the token is not signed, current, and made by this issuer
    for this client and this sign-in; Misconfigured if it refuses this server; ProviderUnavailable.
    """
    metadata = provider.metadata()
    sent = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": client.redirect_uri,
        "code_verifier": verifier,
    }
    methods = metadata.get("token_endpoint_auth_methods_supported")
    # The default of OpenID Connect Discovery 1.0, section 3.
    if not isinstance(methods, list) or "client_secret_basic" in methods:
        # RFC 6749, section 2.3.1: both are encoded as in a form, and then as user and password.
        auth = httpx.BasicAuth(quote_plus(client.client_id), quote_plus(client.secret))
        answer = _post(metadata["token_endpoint"], sent, auth=auth)
    else:
        credentials = {"client_id": client.client_id, "client_secret": client.secret}
        answer = _post(metadata["token_endpoint"], {**sent, **credentials})
    token = answer.get("id_token")
    if not isinstance(token, str):
        raise _refused("the provider returned no ID token")
    try:
        found = _decoded(provider, token)
        known: dict[str, Any] = {
            "iss": {"essential": True, "value": client.issuer},
            "aud": {"essential": True, "value": client.client_id},
            "nonce": {"essential": True, "value": nonce},
            **{name: {"essential": True} for name in ("sub", "exp", "iat")},
        }
        jwt.JWTClaimsRegistry(leeway=_LEEWAY_S, **known).validate(found)
    except (JoseError, ValueError) as error:
        raise _refused(f"the provider's ID token is not valid ({type(error).__name__})") from error
    # Section 3.1.3.7: a token for several audiences has to name the client that asked for it.
    party = found.get("azp", client.client_id if isinstance(found["aud"], str) or len(found["aud"]) == 1 else None)
    if party != client.client_id:
        raise _refused("the provider's ID token was issued for another client")
    return found


def _usable(member: Any) -> Key | None:
    """The key that ``member`` of a set describes, or None if signatures cannot be checked with it: RFC 7517, section 5,
    says to ignore members of a kind, a curve or a form that is not known."""
    try:
        key = import_key(member) if isinstance(member, dict) else None
    except Exception:
        # Each library below has errors of its own, and all mean this.
        return None
    if key is None or isinstance(key, OctKey) or key.get("use", "sig") != "sig":
        return None
    return key if "verify" in (key.get("key_ops") or "verify") else None


def _decoded(provider: Provider, token: str) -> dict[str, Any]:
    """The claims of a token with a valid signature. Raises JoseError and ValueError."""

    def claims(keys: KeySet) -> dict[str, Any]:
        def fitting(signed: Any) -> KeySet:
            # RFC 7517, section 4.5: keys of two kinds may have one id.
            kind = _KINDS.get(str(signed.headers().get("alg"))[:2])
            return KeySet([key for key in keys if key.key_type == kind])

        return jwt.decode(token, fitting, algorithms=_SIGNATURES).claims

    try:
        return claims(provider.keys())
    except InvalidKeyIdError:
        return claims(provider.keys(anew=True))


def _post(address: str, sent: dict[str, str], auth: httpx.Auth | None = None) -> dict[str, Any]:
    try:
        answer = httpx.post(address, data=sent, auth=auth, timeout=_TIMEOUT_S)
        # An error is JSON with one of these, RFC 6749, section 5.2.
        if answer.status_code not in (400, 401):
            answer.raise_for_status()
        found = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise _unavailable(f"{type(error).__name__} at {address}") from error
    found = found if isinstance(found, dict) else {}
    problem = found.get("error")
    if problem == "invalid_grant":
        raise _refused("the provider rejected this sign-in")
    if isinstance(problem, str) and problem in _OF_CLIENT:
        raise Misconfigured(
            f"the identity provider refuses this server ({problem})",
            where="sign_in",
            remedy="Check client_id and scopes in tenants.yaml, the client secret and FT_PUBLIC_URL against the "
            "client's registration at the provider.",
        )
    if problem or not answer.is_success:
        named = problem if isinstance(problem, str) and re.fullmatch(r"\w{1,50}", problem) else answer.status_code
        raise _unavailable(f"{named} at {address}")
    return found


def _json(address: str) -> dict[str, Any]:
    try:
        found = httpx.get(address, timeout=_TIMEOUT_S).raise_for_status().json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise _unavailable(f"{type(error).__name__} at {address}") from error
    return found if isinstance(found, dict) else {}


def _refused(what: str) -> NotIdentified:
    return NotIdentified(what, where="sign-in", remedy="Sign in again.")


def _unavailable(why: str) -> ProviderUnavailable:
    return ProviderUnavailable(
        f"the identity provider's response violates OpenID Connect ({why})",
        where="sign_in.issuer",
        remedy="Check sign_in in tenants.yaml and the network path to the provider.",
    )

"""An OpenID Connect provider on a socket, which may be told to answer wrongly: signs people in without asking them."""

import base64
import functools
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.listening import listening

CLIENT, SECRET = "ft", "s3cret"


@functools.cache
def key_of(number: int) -> RSAKey:
    """A key; making one takes a tenth of a second."""
    return RSAKey.generate_key(2048, auto_kid=True)


@dataclass
class Provider:
    """``claims`` are those of who signs in; ``change`` changes the claims of the next tokens, ``sign`` how they are
    signed, ``header`` their headers. ``beside`` are further members of its set of keys. ``refusal`` is its answer in
    place of tokens; ``told`` are further members of its metadata."""

    url: str = ""
    key: RSAKey = field(default_factory=lambda: key_of(0))
    published: list[RSAKey] = field(default_factory=list)
    claims: dict[str, Any] = field(default_factory=dict)
    change: dict[str, Any] = field(default_factory=dict)
    sign: str = "RS256"
    header: dict[str, Any] = field(default_factory=dict)
    beside: list[Any] = field(default_factory=list)
    refusal: tuple[int, Any] | None = None
    told: dict[str, Any] = field(default_factory=dict)
    secret: str = SECRET
    asked: dict[str, dict[str, str]] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)

    def rotate(self) -> None:
        """Sign with a new key from now on, and publish it beside the old one."""
        self.key = key_of(len(self.published))
        self.published.append(self.key)

    def metadata(self, _: Request) -> Response:
        ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        found = {name: f"{self.url}/{path}" for name, path in ends.items()}
        return JSONResponse({"issuer": self.url, **found, "response_types_supported": ["code"], **self.told})

    def keys(self, _: Request) -> Response:
        published = KeySet(self.published).as_dict(private=False)["keys"]
        return JSONResponse({"keys": [*self.beside, *published]})

    def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert (asked["response_type"], asked["client_id"], asked["code_challenge_method"]) == ("code", CLIENT, "S256")
        code = secrets.token_urlsafe(16)
        self.asked[code] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}")

    async def token(self, request: Request) -> Response:
        sent = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        if self.refusal is not None:
            return JSONResponse(self.refusal[1], self.refusal[0])
        if "authorization" in request.headers:
            # RFC 6749, section 2.3.1.
            pair = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode().split(":")
            client, secret = (unquote_plus(each) for each in pair)
        else:
            client, secret = sent["client_id"], sent["client_secret"]
        # A code is good once.
        asked = self.asked.pop(sent["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(sent["code_verifier"].encode()).digest()).rstrip(b"=")
        if (
            (client, secret) != (CLIENT, self.secret)
            or asked is None
            or sent["redirect_uri"] != asked["redirect_uri"]
            or challenge.decode() != asked["code_challenge"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"], **self.claims}
        changed = {name: value for name, value in {**claims, **self.change}.items() if value is not None}
        self.sent.append(self._signed(changed))
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": self.sent[-1]})

    def _signed(self, claims: dict[str, Any]) -> str:
        if self.sign == "HS256":
            # As if the public key were a secret that both sides know. No library signs so, and an attacker does.
            head = {"alg": "HS256", "kid": self.key.kid}
            said = b".".join(
                base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (head, claims)
            )
            proof = hmac.digest(self.published[0].as_pem(private=False), said, "sha256")
            return (said + b"." + base64.urlsafe_b64encode(proof).rstrip(b"=")).decode()
        if self.sign == "none":
            return jwt.encode({"alg": "none"}, claims, None, algorithms=["none"])
        head = {"alg": self.sign, "kid": self.key.kid, **self.header}
        return jwt.encode({name: value for name, value in head.items() if value is not None}, claims, self.key)


@contextmanager
def identity_provider() -> Iterator[Provider]:
    """A running provider."""
    provider = Provider()
    provider.published.append(provider.key)
    routes = [
        Route("/.well-known/openid-configuration", provider.metadata),
        Route("/keys", provider.keys),
        Route("/authorize", provider.authorize),
        Route("/token", provider.token, methods=["POST"]),
    ]
    with listening(Starlette(routes=routes), beside=True) as provider.url:
        yield provider

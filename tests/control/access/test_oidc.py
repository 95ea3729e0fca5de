"""The small print of OpenID Connect and of what it stands on, as a client has to know it: RFC 6749, 7517 and 7519."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc.jwk import ECKey

from ft_assets.control.access import oidc
from ft_resources.errors import DatabaseUnavailable, Misconfigured, NotIdentified, UserError
from tests.server.identity_provider import CLIENT, Provider, identity_provider, key_of


@pytest.fixture
def provider() -> Iterator[Provider]:
    with identity_provider() as provider:
        provider.claims = {"sub": "77"}
        yield provider


def signed_in(provider: Provider, **changed: Any) -> dict[str, Any]:
    """The claims that a new sign-in gives; each has read nothing of the provider before."""
    known = oidc.Provider(provider.url)
    settings = {"client_id": CLIENT, "secret": provider.secret, "redirect_uri": "http://ft/return", **changed}
    client = oidc.Client(issuer=provider.url, scopes=("openid",), **settings)
    address = oidc.authorization_url(known, client, state="s", nonce="n", verifier="v" * 43)
    code = parse_qs(urlsplit(httpx.get(address).headers["location"]).query)["code"][0]
    return oidc.claims_of(known, client, code=code, nonce="n", verifier="v" * 43)


def public(key: Any, **changed: Any) -> dict[str, Any]:
    return {**key.as_dict(private=False), **changed}


ODD_MEMBERS: list[Any] = [
    None,
    7,
    "key",
    [],
    {},
    {"kty": None},
    {"kty": ["RSA"]},
    {"kty": "AKP", "alg": "ML-DSA-44"},
    {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"},
    {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
    {"kty": "OKP", "crv": "X999", "x": "AA"},
    {"kty": "RSA"},
    {"kty": "RSA", "n": "!!", "e": "AQAB"},
    {"kty": "RSA", "n": 1, "e": None},
    {"kty": "oct", "k": "c2VjcmV0"},
    public(key_of(5), use="unknown"),
    public(key_of(5), key_ops=[["verify"]]),
    public(key_of(5), kid=7),
    public(key_of(5), x5c="no list"),
]


def test_one_bad_member_does_not_take_the_set_of_keys(provider: Provider) -> None:
    for provider.beside in [[each] for each in ODD_MEMBERS]:
        assert signed_in(provider)["sub"] == "77", provider.beside
    provider.beside = ODD_MEMBERS
    assert signed_in(provider)["sub"] == "77"
    provider.published = []
    with pytest.raises(oidc.ProviderUnavailable, match="none of its keys"):
        signed_in(provider)


@pytest.mark.parametrize("use", [{"use": "enc"}, {"key_ops": ["encrypt"]}])
def test_a_key_for_something_else_checks_no_signature(provider: Provider, use: dict[str, Any]) -> None:
    provider.beside = [public(key_of(5), **use)]
    # Without an id, the token is of the only key for signatures.
    provider.header = {"kid": None}
    assert signed_in(provider)["sub"] == "77"
    provider.published, provider.beside = [], [public(provider.key, **use)]
    with pytest.raises(oidc.ProviderUnavailable):
        signed_in(provider)


def test_keys_of_two_kinds_may_have_one_id(provider: Provider) -> None:
    provider.beside = [public(ECKey.generate_key("P-256"), kid=provider.key.kid)]
    assert signed_in(provider)["sub"] == "77"


def test_without_an_id_a_token_of_one_of_several_keys_opens_nothing(provider: Provider) -> None:
    provider.published.append(key_of(5))
    provider.header = {"kid": None}
    with pytest.raises(NotIdentified):
        signed_in(provider)


@pytest.mark.parametrize("methods", [None, [], ["client_secret_basic"], "client_secret_basic", ["client_secret_post"]])
def test_a_secret_of_any_characters_arrives_as_it_is(provider: Provider, methods: Any) -> None:
    provider.told = {"token_endpoint_auth_methods_supported": methods}
    for provider.secret in ("a:b", "100%25+ä/=?&", " "):
        assert signed_in(provider)["sub"] == "77"


REFUSALS: list[tuple[int, Any, type[UserError]]] = [
    (400, {"error": "invalid_grant"}, NotIdentified),
    (200, {"error": "invalid_grant", "id_token": "x"}, NotIdentified),
    *((400, {"error": each}, Misconfigured) for each in ("invalid_request", "unauthorized_client", "invalid_scope")),
    (400, {"error": "unsupported_grant_type"}, Misconfigured),
    (401, {"error": "invalid_client", "error_description": "\x1b[2J"}, Misconfigured),
    (400, {"error": "temporarily_unavailable"}, DatabaseUnavailable),
    (400, {"error": ["invalid_grant"]}, DatabaseUnavailable),
    (400, [], DatabaseUnavailable),
    (401, None, DatabaseUnavailable),
    *((status, {}, DatabaseUnavailable) for status in (302, 403, 404, 405, 408, 429, 500, 503)),
    (200, {}, NotIdentified),
    (200, {"id_token": 7}, NotIdentified),
    (200, {"id_token": "a.b.c.d.e"}, NotIdentified),
    (200, {"id_token": "e30.e30."}, NotIdentified),
    (200, {"id_token": "eyJhbGciOjd9.e30.AA"}, NotIdentified),
    (200, {"id_token": "eyJhbGciOiJSUzI1NiIsImtpZCI6W119.e30.AA"}, NotIdentified),
    (200, {"id_token": "eyJhbGciOiJSUzI1NiIsImNyaXQiOlsieCJdfQ.e30.AA"}, NotIdentified),
    (200, {"id_token": "\u00e9.e30.AA"}, NotIdentified),
]


@pytest.mark.parametrize(("status", "body", "kind"), REFUSALS)
def test_each_answer_of_a_token_endpoint_is_told_as_what_it_is(
    provider: Provider, status: int, body: Any, kind: type[UserError]
) -> None:
    provider.refusal = (status, body)
    with pytest.raises(UserError) as problem:
        signed_in(provider)
    assert isinstance(problem.value, kind)
    assert not {NotIdentified, Misconfigured, DatabaseUnavailable} & set(type(problem.value).__mro__) - {kind}
    assert "\x1b" not in str(problem.value)


@pytest.mark.parametrize(
    ("change", "opens"),
    [
        ({"aud": [CLIENT]}, True),
        ({"aud": [CLIENT, "another"], "azp": CLIENT}, True),
        ({"aud": [CLIENT, 7], "azp": CLIENT}, False),
        ({"exp": 4e9}, True),
        ({"exp": "4000000000"}, False),
        ({"exp": True}, False),
        ({"nbf": 4_000_000_000}, False),
        ({"sub": 77}, False),
        ({"iss": ["x"]}, False),
        ({"new": {"claims": [None]}}, True),
    ],
)
def test_claims_are_of_the_kinds_that_the_standard_gives_them(
    provider: Provider, change: dict[str, Any], opens: bool
) -> None:
    provider.change = change
    if opens:
        assert signed_in(provider)["sub"] == "77"
    else:
        with pytest.raises(NotIdentified):
            signed_in(provider)


def test_a_query_of_the_authorization_endpoint_is_kept(provider: Provider) -> None:
    provider.told = {"authorization_endpoint": f"{provider.url}/authorize?tenant=a%20b"}
    assert signed_in(provider)["sub"] == "77"

"""What stands before every answer: whose request it is, how large, how often, and the headers that keep a browser safe.

host      a page elsewhere whose name was pointed at this machine (DNS rebinding) has another name in its requests
origin    a page elsewhere that sends a form here says so; it can do nothing
token     compared in constant time; asked for everything but the page's own files, which hold nothing
size      bodies are counted as they come, whatever their header promises

HEAD is answered as GET, with its headers and without its body (RFC 9110, 9.3.2).
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equipoise.serve.errors import Refused
from equipoise.serve.limits import Limits, Rate, TooOften

API, UPLOAD = ("/api/", "/openapi.json"), "/api/pictures"
SMALL = "/thumbnail"  # pictures that a page loads by the dozen are not counted
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass(frozen=True)
class Access:
    token: str = ""  # empty: nobody is asked for one
    hosts: tuple[str, ...] = ()  # names by which the service may be called, beside localhost and addresses in numbers


class Guard:
    def __init__(self, app: ASGIApp, access: Access, limits: Limits):
        self.app, self.access, self.limits = app, access, limits
        self.rate = Rate(limits.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # nothing here speaks any other way
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # a copy: the server's own still says HEAD, and it leaves the body out
        safe = _with_headers(send)
        try:
            self._require_host(headers.get("host", ""))
            self._require_origin(headers)
            if scope["path"].startswith(API):
                self._require_token(headers.get("authorization", ""))
                if SMALL not in scope["path"]:
                    self.rate.take((scope.get("client") or ("?",))[0])
            most = self.limits.upload + 4096 if scope["path"] == UPLOAD else self.limits.body
            receive = await self._whole(headers.get("content-length", ""), receive, most)
        except Refused as error:
            await answer(safe, error.code, str(error))
        except TooOften as error:
            await answer(safe, 429, str(error), (("retry-after", "5"),))
        else:
            await self.app(scope, receive, safe)

    def _require_host(self, host: str) -> None:
        if not is_allowed(host, self.access.hosts):
            raise Refused(
                421, "this service is not called by that name; whoever runs it can allow the name with --allow-host"
            )

    def _require_origin(self, headers: dict[str, str]) -> None:
        origin = headers.get("origin")
        foreign = origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
        if foreign or (headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate"):
            raise Refused(403, "a page from elsewhere may not use this service")

    def _require_token(self, authorization: str) -> None:
        if not self.access.token:
            return
        given = authorization.removeprefix("Bearer ").encode("utf-8", "replace")
        if not hmac.compare_digest(given, self.access.token.encode()):
            raise Refused(401, "this needs the token that `equipoise serve` printed; open the address that ends in it")

    async def _whole(self, promised: str, receive: Receive, most: int) -> Receive:
        """The body as one message, unless it is too large or too slow."""
        too_large = Refused(413, f"that is too much at once: at most {most:,} bytes are read here; send less")
        if promised.isdecimal() and int(promised) > most:
            raise too_large
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self.limits.seconds):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return _once(message, receive)
                    parts.append(message.get("body", b""))
                    size, more = size + len(parts[-1]), message.get("more_body", False)
                    if size > most:
                        raise too_large
        except TimeoutError:
            raise Refused(408, f"the request took more than {self.limits.seconds:.0f} seconds to arrive") from None
        return _once({"type": "http.request", "body": b"".join(parts), "more_body": False}, receive)


def is_allowed(host: str, names: Sequence[str]) -> bool:
    """Whether a Host header is localhost, an address in numbers, or one of the names."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:  # half an address
        return False
    if not name:
        return False
    if name == "localhost" or name in {allowed.lower() for allowed in names}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def answer(send: Send, code: int, sentence: str, further: Sequence[tuple[str, str]] = ()) -> None:
    """One sentence as JSON."""
    body = json.dumps({"error": sentence}).encode()
    headers = [("content-type", "application/json"), ("content-length", str(len(body))), *further]
    if code in (408, 413):
        headers.append(("connection", "close"))  # what still comes is not read
    await send(
        {"type": "http.response.start", "status": code, "headers": [(a.encode(), b.encode()) for a, b in headers]}
    )
    await send({"type": "http.response.body", "body": body})


def _once(message: Message, receive: Receive) -> Receive:
    waiting = [message]

    async def receive_whole() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_whole


def _with_headers(send: Send) -> Send:
    async def send_safe(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message.get("headers", ())}
            ours = {**HEADERS, "cache-control": "no-store"}
            added = [(name.encode(), value.encode()) for name, value in ours.items() if name.encode() not in present]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return send_safe

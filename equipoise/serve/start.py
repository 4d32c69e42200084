"""`equipoise serve`: open what is served, say where, and answer until Ctrl-C."""

from __future__ import annotations

import socket
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.serve.request import ServeRequest
from equipoise.types import UserError

if TYPE_CHECKING:
    from equipoise.serve.guard import Access
    from equipoise.serve.service import Service

NEEDED = ("fastapi", "uvicorn", "multipart")
RATE = 600  # requests a minute from one address, where others than this machine can ask
LEAST = 16  # letters of a token


def serve(request: ServeRequest) -> None:
    """Serve until stopped; raises UserError where something needed is missing."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise UserError(f"serving needs {missing[0]}, which is not installed; pip install 'equipoise[serve]'")
    import uvicorn

    from equipoise.serve.app import build_app
    from equipoise.serve.open import open_service

    access = access_of(request)
    listening = _listening(request.host, request.port)  # before a model is loaded
    service = open_service(replace(request, limits=replace(request.limits, rate=_rate(request, access))))
    _tell(service, access, request, listening.getsockname()[1])
    config = uvicorn.Config(
        build_app(service, access), log_level="warning", access_log=False, server_header=False, date_header=False,
        ws="none", timeout_keep_alive=20, proxy_headers=False,
    )  # fmt: skip
    try:
        uvicorn.Server(config).run([listening])
    finally:
        listening.close()


def access_of(request: ServeRequest) -> Access:
    """Who may ask: on this machine alone everybody, else who has the token."""
    from equipoise.serve.guard import Access, is_loopback

    open_to_others = not is_loopback(request.host) or bool(request.hosts)
    token = _token(request.token_file) if request.token_file else ""
    if open_to_others and not token:
        import secrets

        token = secrets.token_urlsafe(24)
    return Access(token, (*request.hosts, request.host))


def _token(path: Path) -> str:
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise UserError(f"cannot read the token from {path}: {reason}; write one there, or leave it out") from None
    if len(token) < LEAST or not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(f"the token in {path} must have at least {LEAST} letters and digits, without blanks")
    return token


def _rate(request: ServeRequest, access: Access) -> int:
    if request.rate is not None:
        return request.rate
    return RATE if access.token else 0


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens at the address; raises UserError where it cannot."""
    if not 0 <= port <= 65535:
        raise UserError(f"--port is {port}; give a number up to 65535, or 0 for any that is free")
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, number)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(1024)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot listen at {host}, port {port}: {reason}; choose another --port or --host") from None
    return listening


def _tell(service: Service, access: Access, request: ServeRequest, port: int) -> None:
    host = "localhost" if request.host == "127.0.0.1" else request.host
    shown = f"[{host}]" if ":" in host else host
    names = " beside ".join(engine.name for engine in service.engines.values())
    print(f"{names}: {service.about_data}")
    if service.suspects is not None:
        print(f"{len(service.suspects):,} captions to judge" + (" (to look at alone)" if service.read_only else ""))
    ending = f"#token={access.token}" if access.token else ""
    print(f"Open http://{shown}:{port}/{ending} (Ctrl-C ends it)", flush=True)
    if access.token:
        print("Whoever has this address can use the service; what is sent is not encrypted unless a proxy does it")

"""`planforge serve`: the HTTP API and one worker."""

from __future__ import annotations

import argparse
import signal
import socket
from contextlib import ExitStack

import uvicorn

from service.commands.common import (
    CommandFailed,
    add_setting_options,
    open_database,
    setting_overrides,
    settings_with,
    start_logging,
)
from service.commands.worker_process import WorkerProcess
from service.settings import Settings

DRAIN = 10
"""Seconds that requests under way get when the service ends."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("serve", help="run the HTTP API and one worker", description=__doc__)
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (8000); 0 takes a free one and prints it")
    parser.add_argument("--no-worker", action="store_true", help="the API alone: builds wait for a `planforge worker`")
    add_setting_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    settings = settings_with({"host": options.host, "port": options.port, **setting_overrides(options)})
    start_logging(settings.log_level)
    open_database(settings).close()
    with _listening(settings) as listening, ExitStack() as stack:
        server = Server(settings, _url(listening))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, server.end)
        if not options.no_worker:
            stack.enter_context(WorkerProcess(settings, lambda: server.should_exit))
        server.run(sockets=[listening])
    return 0 if server.started else 1


class Server(uvicorn.Server):
    """Says where it listens once it answers there."""

    def __init__(self, settings: Settings, url: str) -> None:
        from service.app import create_app

        config = uvicorn.Config(
            create_app(settings),
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=DRAIN,
            server_header=False,
        )
        super().__init__(config)
        self._url = url

    def end(self, *_: object) -> None:
        """For signals while uvicorn does not listen to them: before it runs, and again at its end, when all is done."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            print(f"planforge serves {self._url} (documentation: {self._url}/docs)", flush=True)


def _listening(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise CommandFailed(f"cannot listen on {settings.host} port {settings.port}: {error.strerror}") from None
    # asyncio sets this only where it opens the socket itself; without it every answer waits 40 ms for the client.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

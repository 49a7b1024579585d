"""What commands share: settings, logging, the client, and errors as one line."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from service.client import Client
from service.client.calls import URL
from service.errors import ServiceError
from service.settings import Settings
from service.store.database import Database

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class CommandFailed(Exception):
    """Ends the command with a line on standard error."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def settings_with(overrides: Mapping[str, object]) -> Settings:
    """The environment's settings and the command line's (None: not given). Raises CommandFailed for invalid ones."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        lines = [f"{_setting(each['loc'])}: {each['msg']}" for each in error.errors()]
        raise CommandFailed("invalid settings: " + "; ".join(lines), 2) from None


def _setting(location: tuple[int | str, ...]) -> str:
    name = str(location[0]).upper() if location else ""
    return name if name.startswith("PLANFORGE_") else f"PLANFORGE_{name}"


def add_setting_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", metavar="FOLDER", help="where the embedded database and caches lie (./var)")
    parser.add_argument(
        "--database-url", metavar="URL", help="sqlite:///FILE or postgresql://... (SQLite in --data-dir)"
    )
    parser.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning or error (info)")


def setting_overrides(options: argparse.Namespace) -> dict[str, object]:
    return {name: getattr(options, name) for name in ("data_dir", "database_url", "log_level")}


def open_database(settings: Settings) -> Database:
    """The database, its schema up to date. Raises CommandFailed where it cannot be used."""
    try:
        database = Database(settings.resolved_database_url)
        database.migrate()
    except (ValueError, OSError, SQLAlchemyError) as error:
        raise CommandFailed(f"the database cannot be used: {str(error).splitlines()[0]}") from None
    return database


def start_logging(level: str) -> None:
    names = logging.getLevelNamesMapping()
    if level.upper() not in names:
        raise CommandFailed(f"no log level {level!r}, expected debug, info, warning or error", 2)
    logging.basicConfig(level=names[level.upper()], format=FORMAT, stream=sys.stderr)
    for chatty in ("httpx", "alembic", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def add_url_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help=f"the service (PLANFORGE_URL, else {URL})")


@contextmanager
def service_client(options: argparse.Namespace) -> Iterator[Client]:
    """A client whose errors end the command in words."""
    url = options.url or os.environ.get("PLANFORGE_URL") or URL
    try:
        with Client(url) as client:
            yield client
    except ServiceError as error:
        lines = [error.detail, *(f"  {fault.pointer or '(body)'}: {fault.detail}" for fault in error.faults)]
        raise CommandFailed("\n".join(lines)) from None
    except httpx.ConnectError:
        raise CommandFailed(f"no service answers at {url}; `planforge serve` starts one") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CommandFailed(f"{url}: {error or type(error).__name__}") from None
    except OSError as error:
        raise CommandFailed(f"{error.filename or 'a file'}: {error.strerror}") from None

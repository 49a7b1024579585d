"""`planforge worker`: builds what is queued, until it is told to end."""

from __future__ import annotations

import argparse
import signal
import threading

from service.children import end_with_parent
from service.commands.common import (
    add_setting_options,
    open_database,
    setting_overrides,
    settings_with,
    start_logging,
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("worker", help="run a worker that builds what is queued", description=__doc__)
    add_setting_options(parser)
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from service.builds.worker import Worker

    if options.parent is not None:
        end_with_parent(options.parent)
    settings = settings_with(setting_overrides(options))
    start_logging(settings.log_level)
    database = open_database(settings)
    worker = Worker(settings, database)

    def stop(*_: object) -> None:
        # In a thread: this may interrupt the very wait that `stop` ends, with its lock held.
        threading.Thread(target=worker.stop).start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    worker.run()
    database.close()
    return 0

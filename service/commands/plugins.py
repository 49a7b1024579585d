"""`planforge plugins`: what plugins there are, a new one, and whether one is right."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from service.commands.common import CommandFailed, settings_with


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("plugins", help="list, start or check plugins", description=__doc__)
    parser.set_defaults(run=run_list)
    kinds = parser.add_subparsers(title="commands", metavar="COMMAND")
    listing = kinds.add_parser("list", help="the plugins that networks may use on this host")
    listing.set_defaults(run=run_list)
    new = kinds.add_parser("new", help="write the folder of a new plugin, which works as it stands")
    new.add_argument("name", metavar="NAME", help="such as LeakyClip")
    new.add_argument(
        "folder", nargs="?", type=Path, default=Path(), metavar="FOLDER", help="where to (the current one)"
    )
    new.add_argument("--package", action="store_true", help="write a package that pip installs")
    new.set_defaults(run=run_new)
    check = kinds.add_parser("check", help="run the conformance checks that the built-in plugins pass")
    check.add_argument("package", metavar="PACKAGE", help="an installed package, a module, or a plugin's folder")
    check.add_argument("-v", "--verbose", action="store_true", help="show the checks that pass too")
    check.set_defaults(run=run_check)


def run_list(options: argparse.Namespace) -> int:
    from service.backends.probe import probe

    host = probe(settings_with({}))
    for entry in host.catalogue.entries:
        title = f"{entry['namespace'] or '-'}.{entry['name']} version {entry['version']}"
        print(f"{title:<48} {entry['origin']:<12} {entry['summary']}".rstrip())
    for problem in host.problems:
        print(f"planforge: {problem}", file=sys.stderr)
    return 0


def run_new(options: argparse.Namespace) -> int:
    from service.plugins.scaffold import write_plugin

    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        written = write_plugin(options.name, options.folder, options.package)
    except FileExistsError as error:
        raise CommandFailed(f"{error.filename} is there already") from None
    except OSError as error:
        raise CommandFailed(f"{error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise CommandFailed(str(error), 2) from None
    print(f"{written}: edit it, then run `planforge plugins check {written}`")
    return 0


def run_check(options: argparse.Namespace) -> int:
    from service.plugins.conformance import check_package

    failed = total = 0
    try:
        for result in check_package(options.package, settings_with({}).kernel_cache):
            total += 1
            failed += not result.ok
            if not result.ok or options.verbose:
                print(result, flush=True)
    except (ValueError, ImportError) as error:
        raise CommandFailed(str(error)) from None
    print(f"{total} checks, {failed} failed" if failed else f"{total} checks, all passed")
    return 1 if failed else 0

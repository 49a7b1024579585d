"""Ends a host that no longer answers."""

from __future__ import annotations

import asyncio

from service.errors import ServiceError
from service.hosting.limits import Limits
from service.hosting.messages import Ping
from service.hosting.process import HostProcess


async def watch(process: HostProcess, limits: Limits) -> None:
    """Asks again and again until the process ends, by itself or because it does not answer."""
    _, starting = await asyncio.wait([process.free], timeout=limits.start_patience)
    if starting:
        process.kill(f"did not start within {limits.start_patience:g} s and was ended")
    while process.alive:
        await asyncio.sleep(limits.heartbeat)
        if process.loading or await _answers(process, limits.heartbeat_patience) or process.loading:
            continue
        process.kill(f"did not answer for {limits.heartbeat_patience:g} s and was ended")


async def _answers(process: HostProcess, patience: float) -> bool:
    try:
        await asyncio.wait_for(process.ask(Ping(process.next_call(), 0.0)), patience)
    except TimeoutError:
        return False
    except ServiceError:
        return True  # it has died meanwhile, which is noticed elsewhere
    return True

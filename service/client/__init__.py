"""Python client: `Client` and `AsyncClient` have the same methods, and raise the errors of `service.errors`."""

from service.client.nonblocking import AsyncClient
from service.client.sync import Client

__all__ = ["AsyncClient", "Client"]

"""The plugin SDK. A plugin's author imports everything from here."""

from service.datatypes import FLOATS
from service.plugins.fields import field, required
from service.plugins.plugin import CudaPlugin, PluginFault
from service.plugins.tensors import Call, Launch, Operator, Tensor, TensorType, View

__all__ = [
    "FLOATS",
    "Call",
    "CudaPlugin",
    "Launch",
    "Operator",
    "PluginFault",
    "Tensor",
    "TensorType",
    "View",
    "field",
    "required",
]

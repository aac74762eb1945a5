"""Plan a backlog of LLM requests on a KV-cache budget."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sortedf import certificate, verify
    from sortedf.errors import (
        Fault,
        InfeasibleError,
        InputError,
        InvalidRequestError,
        OptionError,
        SortedfError,
        VerificationError,
    )
    from sortedf.instances import (
        example,
        generate,
        read_backlog,
        read_certificate,
        read_plan,
        write_backlog,
        write_certificate,
        write_plan,
    )
    from sortedf.model import Instance, Request, Result, Schedule, Status, StopReason
    from sortedf.solvers import solve

__version__ = "0.1.0"

# Where each public name lives. Modules are imported at first use: `import sortedf` loads neither
# numpy nor numba.
_HOMES = {
    "Fault": "errors",
    "InfeasibleError": "errors",
    "InputError": "errors",
    "Instance": "model",
    "InvalidRequestError": "errors",
    "OptionError": "errors",
    "Request": "model",
    "Result": "model",
    "Schedule": "model",
    "SortedfError": "errors",
    "Status": "model",
    "StopReason": "model",
    "VerificationError": "errors",
    "example": "instances",
    "generate": "instances",
    "read_backlog": "instances",
    "read_certificate": "instances",
    "read_plan": "instances",
    "solve": "solvers",
    "write_backlog": "instances",
    "write_certificate": "instances",
    "write_plan": "instances",
}

__all__ = [
    "Fault",
    "InfeasibleError",
    "InputError",
    "Instance",
    "InvalidRequestError",
    "OptionError",
    "Request",
    "Result",
    "Schedule",
    "SortedfError",
    "Status",
    "StopReason",
    "VerificationError",
    "__version__",
    "certificate",
    "example",
    "generate",
    "read_backlog",
    "read_certificate",
    "read_plan",
    "solve",
    "verify",
    "write_backlog",
    "write_certificate",
    "write_plan",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sortedf.{_HOMES[name]}"), name)
    if name in ("certificate", "verify"):
        return import_module(f"sortedf.{name}")
    raise AttributeError(f"module 'sortedf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

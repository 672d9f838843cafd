"""The Hub of this machine, for Spaces."""

from tests.hub.conftest import hub

__all__ = ["hub"]

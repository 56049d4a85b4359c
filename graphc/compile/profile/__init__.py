"""Profiles of compiled functions: where the time of calls and of compiling goes."""

from graphc.compile.profile.measure import profiled
from graphc.compile.profile.result import Profile, Row

__all__ = ["Profile", "Row", "profiled"]

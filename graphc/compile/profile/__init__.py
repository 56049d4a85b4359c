"""Profiles of compiled functions: where the time of calls and of compiling goes."""

from graphc.compile.profile.measure import profile_program
from graphc.compile.profile.result import Profile, Row

__all__ = ["Profile", "Row", "profile_program"]

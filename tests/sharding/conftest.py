"""Tests that need several devices run in the processes that ``test_sharding.py`` starts."""

from __future__ import annotations

import os

SEVERAL = "--xla_force_host_platform_device_count"

EIGHT = [
    "several_devices.py",
    "attention_on_mesh.py",
    "implicit_on_mesh.py",
    "programs_on_mesh.py",
]
"""The files of tests that need eight."""

if SEVERAL not in os.environ.get("XLA_FLAGS", ""):
    collect_ignore = EIGHT

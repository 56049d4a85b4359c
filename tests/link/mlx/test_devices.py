"""Choices that depend on MLX's device are in one file, each with a reason and its source."""

from __future__ import annotations

import re
from pathlib import Path

import mlx.core as mx
import pytest

from graphc.link.mlx import devices
from graphc.link.mlx.devices import CHOICES, device_choice
from graphc.link.mlx.gaps import GAPS

SOURCES = {
    path.name: path.read_text(encoding="utf-8")
    for path in Path(devices.__file__).parent.rglob("*.py")
    if path.name != "devices.py"
}


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_has_a_reason_and_a_source_and_is_read(name: str) -> None:
    choice = CHOICES[name]
    assert choice.reason
    assert choice.source
    assert choice.on("cpu") != choice.on("gpu")
    assert any(f'"{name}"' in text for text in SOURCES.values())


@pytest.mark.parametrize("file", sorted(SOURCES))
def test_no_other_file_compares_devices(file: str) -> None:
    # An operation may be put on the CPU, whatever the device.
    assert not re.search(r"(==|!=|is) mx\.(cpu|gpu)\b", SOURCES[file])


def test_a_choice_is_for_the_modes_device_and_else_for_the_current_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert device_choice("has float64", {"device": "cpu"})
    (gap,) = [gap for gap in GAPS if "GPU" in gap.feature]
    assert not gap.applies({"device": "cpu"})
    monkeypatch.setattr(devices, "device_of", lambda options: mx.Device(mx.gpu))
    assert not device_choice("has float64", {})
    assert gap.applies({})
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu))
    assert not device_choice("fuses by C++")

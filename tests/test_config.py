import subprocess
import sys
from pathlib import Path

import pytest

from graphc.config import MODES, Config, config, default_directory, variable
from graphc.errors import ModeError
from graphc.link import names

HOME = Path.home()


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({}, "linux", HOME / ".cache" / "graphc"),
        ({"XDG_CACHE_HOME": "/x/y"}, "linux", Path("/x/y/graphc")),
        # The standard has relative paths ignored.
        ({"XDG_CACHE_HOME": "x/y"}, "linux", HOME / ".cache" / "graphc"),
        ({"XDG_CACHE_HOME": "/x/y"}, "darwin", HOME / "Library" / "Caches" / "graphc"),
        (
            {"LOCALAPPDATA": "/users/u/AppData/Local"},
            "win32",
            "/users/u/AppData/Local/graphc/Cache",
        ),
        ({}, "win32", None),
        ({"GRAPHC_CACHE_DIR": "/z"}, "linux", Path("/z")),
        ({"GRAPHC_CACHE_DIR": "z"}, "linux", Path.cwd() / "z"),
        ({"GRAPHC_CACHE_DIR": "~/z"}, "linux", HOME / "z"),
        ({"GRAPHC_CACHE_DIR": "off", "XDG_CACHE_HOME": "/x"}, "linux", None),
        ({"GRAPHC_CACHE_DIR": "OFF"}, "linux", None),
        ({"GRAPHC_CACHE_DIR": "./off"}, "linux", Path.cwd() / "off"),
        ({"GRAPHC_CACHE_DIR": "", "XDG_CACHE_HOME": "/x"}, "linux", Path("/x/graphc")),
    ],
)
def test_the_cache_is_where_each_system_has_caches(
    environment: dict[str, str], platform: str, expected: str | Path | None
) -> None:
    assert default_directory(environment, platform) == (expected and Path(expected))


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert default_directory({}, "linux") is None
    assert default_directory({}, "darwin") is None


def test_the_environment_is_read_when_the_setting_is(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Config()
    monkeypatch.setenv("GRAPHC_CACHE_DIR", "/first")
    assert settings.cache_dir == Path("/first")
    monkeypatch.setenv("GRAPHC_CACHE_DIR", "/second")
    assert settings.cache_dir == Path("/first")


@pytest.mark.parametrize("value", [None, "off"])
def test_the_cache_can_be_switched_off(value: str | None) -> None:
    with config.change_flags(cache_dir="/somewhere"):
        with config.change_flags(cache_dir=value):
            assert config.cache_dir is None
        assert config.cache_dir == Path("/somewhere")


def test_a_relative_directory_stays_where_it_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with config.change_flags(cache_dir="cache"):
        monkeypatch.chdir(tmp_path.parent)
        assert config.cache_dir == tmp_path / "cache"


def test_importing_makes_no_directory(tmp_path: Path) -> None:
    code = "import graphc; print(graphc.config.cache_dir)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"XDG_CACHE_HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(tmp_path / "graphc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", ["", "a\0b", b"/tmp", 3, True], ids=repr)
def test_what_names_no_directory_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="use a path, or None"):
        Config().cache_dir = wrong


def test_progress_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHC_PROGRESS", "off")
    assert Config().progress == "off"
    monkeypatch.setenv("GRAPHC_PROGRESS", "")
    assert Config().progress == "auto"
    monkeypatch.setenv("GRAPHC_PROGRESS", "loud")
    with pytest.raises(ValueError, match=r"config\.progress = 'loud': use one of auto, on, off"):
        _ = Config().progress


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("floatX", "float32", "float32"),
        ("mode", "NUMPY", "NUMPY"),
        ("programs", "12", 12),
        ("scan_returns_updates", "1", True),
        ("warn_on_captured_constants", "false", False),
        ("cache_dir", "off", None),
    ],
)
def test_every_setting_can_come_from_the_environment(
    name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable(name), text)
    assert getattr(Config(), name) == value


@pytest.mark.parametrize(
    ("name", "text"), [("floatX", "single"), ("programs", "many"), ("scan_returns_updates", "2")]
)
def test_a_wrong_variable_is_named(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable(name), text)
    with pytest.raises(ValueError, match=f"^{variable(name)}={text}: config.{name} = .*: use "):
        getattr(Config(), name)


def test_a_mode_that_does_not_exist_is_refused_when_it_is_set() -> None:
    with pytest.raises(ModeError, match=r"config\.mode = 'jax': .* Did you mean 'JAX'"):
        config.mode = "jax"
    with pytest.raises(ValueError, match=r"or a graphc\.Mode"):
        config.mode = None
    assert sorted(MODES) == names()


def test_the_text_of_the_settings_has_all_of_them() -> None:
    text = repr(Config())
    assert text.startswith("Config(cache_bytes=1073741824, ")
    assert [name for name in Config.__slots__ if f"{name}=" not in text] == []

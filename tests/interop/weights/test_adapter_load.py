"""Adapters in files of PEFT: what PEFT merges them to, and files that are the same again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import mlx.core as mx
import numpy as np
import pytest
import safetensors.numpy

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.errors import ArgumentError, FormatError, ImplicitArrayError
from graphc.interop.weights import load_adapter, load_safetensors, save_adapter

DATA = Path(__file__).parent / "data" / "peft"
NAMES = ("plain", "rank_stabilized", "patterns", "dora")
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rank_stabilized": {"rank_stabilized": True, "bias": "lora_only"},
    "patterns": {"embeddings": ["embed"], "modules_to_save": ["score"]},
    "dora": {"embeddings": ["embed"], "bias": "all"},
}
"""What ``save_adapter`` is told of each."""


def values(name: str, which: str) -> dict[str, Any]:
    found = load_safetensors(DATA / name / "values.safetensors")
    return {key.removeprefix(f"{which}/"): found[key] for key in found if key.startswith(which)}


def turned(tree: dict[str, Any]) -> dict[str, Any]:
    """Linear weights transposed."""
    return {key: x.T if len(x.shape) == 2 and "embed" not in key else x for key, x in tree.items()}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_adapters_are_what_peft_merges_and_are_written_again(
    name: str, transposed: bool, tmp_path: Path
) -> None:
    base, merged = values(name, "base"), values(name, "merged")
    given = turned(base) if transposed else base
    found = load_adapter(DATA / name, given, transposed=transposed)
    kind = implicit.DoRA if name == "dora" else implicit.LoRA
    assert isinstance(found["layers.1.q_proj.weight"], kind)
    made = implicit.merge(found)
    made = turned(made) if transposed else made
    for key, x in merged.items():
        np.testing.assert_allclose(made[key], x, rtol=2e-5, atol=2e-6, err_msg=key)
        assert np.abs(x - base[key]).max() > 1e-2 or np.array_equal(x, base[key])
    save_adapter(tmp_path, found, transposed=transposed, **SETTINGS[name])
    ours, theirs = (
        safetensors.numpy.load_file(folder / "adapter_model.safetensors")
        for folder in (tmp_path, DATA / name)
    )
    assert ours.keys() == theirs.keys()
    for key, x in theirs.items():
        np.testing.assert_array_equal(ours[key], x, err_msg=key)
    said, before = (
        json.loads((folder / "adapter_config.json").read_text())
        for folder in (tmp_path, DATA / name)
    )
    for key in ("peft_type", "r", "lora_alpha", "use_rslora", "use_dora", "bias"):
        assert said[key] == before[key], key
    again = load_adapter(tmp_path, given, transposed=transposed)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_trees_are_nested_and_renamed() -> None:
    base = values("plain", "base")
    tree: dict[str, Any] = {
        "body": [
            {
                "attention": {
                    key: {"weight": base[f"layers.{i}.{key}.weight"]}
                    for key in ("q_proj", "v_proj")
                }
            }
            for i in range(2)
        ],
        "steps": 3,
    }

    def rename(name: str) -> str:
        layers, place, projection = name.split(".")
        assert layers == "layers"
        return f"body.{place}.attention.{projection}"

    found = load_adapter(DATA / "plain", tree, rename=rename)
    flat = implicit.merge(load_adapter(DATA / "plain", base))
    for i in range(2):
        for key in ("q_proj", "v_proj"):
            x = found["body"][i]["attention"][key]["weight"]
            np.testing.assert_array_equal(x.merged(), flat[f"layers.{i}.{key}.weight"])
    assert found["steps"] == 3
    with pytest.raises(ArgumentError, match=r"'layers.0.q_proj'.*'layers.0.q_proj'") as error:
        load_adapter(DATA / "plain", tree)
    assert "rename=" in str(error.value)


@pytest.mark.parametrize("name", ["patterns", "dora"])
def test_quantized_bases_stay_packed_on_every_backend(name: str) -> None:
    rng = np.random.default_rng(0)
    base = values(name, "base")
    wide = {
        key: implicit.quantize(x, "int4", group_size=8) if x.ndim == 2 and "q_proj" in key else x
        for key, x in base.items()
    }
    w = load_adapter(DATA / name, wide)["layers.1.q_proj.weight"]
    lora = w.lora if name == "dora" else w
    assert isinstance(lora.base, implicit.AffineQuantized)
    dense = implicit.dequantize(wide)
    expected_w = np.asarray(load_adapter(DATA / name, dense)["layers.1.q_proj.weight"].merged())
    x = rng.standard_normal((3, 6)).astype("float32")
    expected = x @ expected_w.T
    v, symbol = gt.matrix("x", dtype="float32"), gt.implicit(w, name="w")
    with implicit.materializing("error"):
        made = [x @ w.T, jax.jit(implicit.implicit(lambda x, w: x @ w.T))(x, w)]
        for mode in ("NUMPY", "JAX", "MLX"):
            f = graphc.function([v, symbol], v @ symbol.T, mode=mode, returns="numpy")
            made.append(f(x, w))
    for y in made:
        np.testing.assert_allclose(np.asarray(y), expected, atol=1e-4)


@pytest.mark.parametrize("array", [jnp.asarray, mx.array], ids=["JAX", "MLX"])
@pytest.mark.parametrize("name", ["patterns", "dora"])
def test_adapters_are_of_the_library_of_their_bases(name: str, array: Any, tmp_path: Path) -> None:
    base = {key: array(x) for key, x in values(name, "base").items()}
    found = load_adapter(DATA / name, base)
    kind = type(array(np.ones(2)))
    for x in found.values():
        x = x.lora if isinstance(x, implicit.DoRA) else x
        parts = [x.a, x.b, x.scale] if isinstance(x, implicit.LoRA) else [x]
        assert all(isinstance(part, kind) for part in parts)
    whole = load_adapter(DATA / name, values(name, "base"))
    for key, x in found.items():
        if implicit.is_implicit(x):
            np.testing.assert_allclose(
                np.asarray(x.materialize()),
                np.asarray(whole[key].materialize()),
                rtol=1e-4,
                atol=1e-5,
            )
    save_adapter(tmp_path, found, **SETTINGS[name])
    ours, theirs = (
        safetensors.numpy.load_file(folder / "adapter_model.safetensors")
        for folder in (tmp_path, DATA / name)
    )
    for key, x in theirs.items():
        np.testing.assert_array_equal(ours[key], x, err_msg=key)


def test_dtypes_are_chosen_not_guessed() -> None:
    base = {key: x.astype(ml_dtypes.bfloat16) for key, x in values("plain", "base").items()}
    with pytest.raises(ArgumentError, match=r"is of bfloat16, its adapter of float32") as error:
        load_adapter(DATA / "plain", base)
    assert "dtype='bfloat16'" in str(error.value)
    for dtype in ("bfloat16", "float32"):
        found = load_adapter(DATA / "plain", base, dtype=dtype)["layers.0.q_proj.weight"]
        assert {str(x.dtype) for x in (found, found.base, found.a, found.b, found.scale)} == {dtype}


def adapter(folder: Path, name: str = "plain", **changes: Any) -> Path:
    """A copy of a file with another config."""
    shutil.copytree(DATA / name, folder / name)
    path = folder / name / "adapter_config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: x for key, x in config.items() if x != "gone"}))
    return folder / name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"layer_replication": [[0, 2]]}, "'layer_replication' is"),
        ({"lora_bias": True}, "'lora_bias' is True"),
        ({"use_qalora": True}, "'use_qalora' is True"),
        ({"alora_invocation_tokens": [1]}, "'alora_invocation_tokens' is"),
        ({"trainable_token_indices": [1, 2]}, "'trainable_token_indices' is"),
        ({"target_parameters": ["experts"]}, "'target_parameters' is"),
        ({"of_the_future": 3}, "'of_the_future' is 3"),
        ({"init_lora_weights": "pissa_niter_4"}, "'init_lora_weights' is 'pissa_niter_4'"),
        ({"init_lora_weights": "olora"}, "'init_lora_weights' is 'olora'"),
        ({"r": 4}, "the config has rank 4"),
        ({"r": "gone"}, "r is None"),
        ({"lora_alpha": -1}, "lora_alpha is -1"),
        ({"rank_pattern": {"q_proj": "two"}}, r"rank_pattern\['q_proj'\] is 'two'"),
        ({"alpha_pattern": {"(": 2}}, r"'alpha_pattern' has '\('"),
        ({"use_dora": True}, "use_dora is True, but 'layers.0.q_proj' has no"),
        ({"fan_in_fan_out": True}, r"has an update of shape \[6, 4\], the tree's is \[4, 6\]"),
    ],
)
def test_what_would_change_numbers_is_named(changes: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message):
        load_adapter(adapter(tmp_path, **changes), values("plain", "base"))


def test_harmless_keys_are_no_matter(tmp_path: Path) -> None:
    path = adapter(
        tmp_path, lora_dropout=0.5, init_lora_weights="eva", eva_config={"rho": 2}, task_type="X"
    )
    found = load_adapter(path, values("plain", "base"))
    wanted = load_adapter(DATA / "plain", values("plain", "base"))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(a, b)


def test_weights_of_inputs_first_are_flipped(tmp_path: Path) -> None:
    base = values("plain", "base")
    found = load_adapter(adapter(tmp_path, fan_in_fan_out=True), turned(base))
    wanted = turned(implicit.merge(load_adapter(DATA / "plain", base)))
    for key, x in implicit.merge(found).items():
        np.testing.assert_allclose(x, wanted[key], rtol=1e-5, atol=1e-6)
    again = tmp_path / "again"
    save_adapter(again, found, config={"fan_in_fan_out": True})
    ours = load_safetensors(again / "adapter_model.safetensors")
    theirs = load_safetensors(DATA / "plain" / "adapter_model.safetensors")
    for key in theirs:
        np.testing.assert_array_equal(ours[key], theirs[key])


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        (lambda key: key.replace("lora_A.", "lora_A.default."), "does not know what"),
        (lambda key: key.replace("lora_A.weight", "lora_A.bias"), "does not know what"),
        (lambda key: key.replace("lora_A", "lora_C"), "does not know what"),
    ],
)
def test_unknown_arrays_are_named(rename: Any, message: str, tmp_path: Path) -> None:
    path = adapter(tmp_path) / "adapter_model.safetensors"
    arrays = {rename(key): x for key, x in safetensors.numpy.load_file(path).items()}
    safetensors.numpy.save_file(arrays, path)
    with pytest.raises(FormatError, match=message):
        load_adapter(path, values("plain", "base"))


def test_missing_parts_are_named(tmp_path: Path) -> None:
    base = values("plain", "base")
    folder = adapter(tmp_path)
    path = folder / "adapter_model.safetensors"
    arrays = safetensors.numpy.load_file(path)
    key = "base_model.model.layers.0.q_proj.lora_A.weight"
    safetensors.numpy.save_file({name: x for name, x in arrays.items() if name != key}, path)
    with pytest.raises(FormatError, match=r"'layers.0.q_proj' has {'lora_B'"):
        load_adapter(folder, base)
    convolution = {key: np.ones((2, 6, 3, 3), "float32")}
    safetensors.numpy.save_file(arrays | convolution, path)
    with pytest.raises(FormatError, match="of convolutions merge them"):
        load_adapter(folder, base)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FormatError, match="lies outside of the file"):
        load_adapter(folder, base)
    path.rename(folder / "adapter_model.bin")
    with pytest.raises(FormatError, match=r"adapter_model.bin: it is no safetensors"):
        load_adapter(folder, base)
    (folder / "adapter_config.json").unlink()
    with pytest.raises(FormatError, match=r"no adapter_config.json beside it"):
        load_adapter(folder, base)


def test_ranks_and_alphas_of_names_within_others_are_told_apart(tmp_path: Path) -> None:
    base = np.ones((4, 6), "float32")
    ranks = {"proj": 3, "a.proj": 1, "b.a.proj": 2, "b.b.proj": 3}
    tree = {
        f"{name}.weight": implicit.LoRA.of(base, rank, alpha=0.3 * (i + 1), seed=i)
        for i, (name, rank) in enumerate(ranks.items())
    }
    save_adapter(tmp_path, tree)
    found = load_adapter(tmp_path, dict.fromkeys(tree, base))
    for name, x in tree.items():
        for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(found[name]), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


LORA = implicit.LoRA.of(np.ones((4, 6), "float32"), 1)
DORA = implicit.DoRA.of(np.ones((4, 6), "float32"), 1)
STACK = implicit.LoRA.of(np.ones((2, 4, 6), "float32"), 1)


@pytest.mark.parametrize(
    ("tree", "settings", "error", "message"),
    [
        ({"a.weight": np.ones(2)}, {}, ArgumentError, "the tree has no adapter"),
        ({"a": LORA}, {"embeddings": ["b"]}, ArgumentError, "no layer 'b'"),
        ({"a": LORA}, {"modules_to_save": ["c"]}, ArgumentError, "no layer 'c'"),
        ({"a": LORA}, {"bias": "some"}, ArgumentError, "bias='some'"),
        (
            {"a": LORA, "b": DORA},
            {"transposed": True},
            ImplicitArrayError,
            "'a' is a LoRA, and 'b'",
        ),
        ({"a": DORA}, {}, ImplicitArrayError, "a length for each output"),
        ({"a": STACK}, {}, ImplicitArrayError, "each of a stack"),
    ],
)
def test_what_peft_has_no_place_for_is_named(
    tree: Any, settings: Any, error: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        save_adapter(tmp_path / "out", tree, **settings)
    assert not (tmp_path / "out").exists()

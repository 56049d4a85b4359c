"""Writes the files in data/, by the libraries whose layouts they have.

They are PEFT 0.21 and PyTorch 2.14, and the packing of AutoAWQ 0.2.9 and AutoGPTQ 0.7.1, which need
PyTorch alone::

    pip install torch peft && pip download --no-deps autoawq auto-gptq   # and unpack both
    python -m tests.interop.weights.reference FOLDER_OF_AUTOAWQ FOLDER_OF_AUTOGPTQ
"""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

DATA = Path(__file__).parent / "data"

ADAPTERS: dict[str, dict[str, Any]] = {
    "plain": {"r": 2, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj"]},
    "rank_stabilized": {
        "r": 3,
        "lora_alpha": 5,
        "use_rslora": True,
        "bias": "lora_only",
        "target_modules": ["q_proj"],
    },
    "patterns": {
        "r": 2,
        "lora_alpha": 6,
        "target_modules": ["q_proj", "v_proj", "embed"],
        "rank_pattern": {"layers.1.q_proj": 4, "v_proj": 1},
        "alpha_pattern": {"layers.0.q_proj": 10},
        "modules_to_save": ["score"],
    },
    "dora": {
        "r": 2,
        "lora_alpha": 6,
        "use_dora": True,
        "bias": "all",
        "target_modules": ["q_proj", "v_proj", "embed"],
    },
}


def write_adapters() -> None:
    """Each of ``ADAPTERS`` beside its base, and what PEFT merges the two to."""
    torch, peft = import_module("torch"), import_module("peft")
    nn = torch.nn

    def model() -> Any:
        torch.manual_seed(0)
        layers = nn.ModuleList(
            nn.ModuleDict({"q_proj": nn.Linear(6, 4), "v_proj": nn.Linear(6, 4, False)})
            for _ in range(2)
        )
        score = nn.Linear(4, 3)
        return nn.ModuleDict({"embed": nn.Embedding(5, 6), "layers": layers, "score": score})

    def arrays(module: Any) -> dict[str, Any]:
        return {name: x.detach().numpy().copy() for name, x in module.state_dict().items()}

    for name, settings in ADAPTERS.items():
        folder = DATA / "peft" / name
        base = arrays(model())
        wrapped = peft.PeftModel(model(), peft.LoraConfig(**settings))
        with torch.no_grad():
            for parameter in wrapped.parameters():
                if parameter.requires_grad:
                    parameter.add_(torch.randn_like(parameter) * 0.3)
        wrapped.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        merged = arrays(wrapped.merge_and_unload())
        both = {f"base/{key}": x for key, x in base.items()}
        both |= {f"merged/{key}": x for key, x in merged.items()}
        safetensors.numpy.save_file(
            {key: np.ascontiguousarray(x) for key, x in both.items()}, folder / "values.safetensors"
        )


def write_awq(source: Path) -> None:
    """Random words, and what AutoAWQ makes whole of them."""
    torch = import_module("torch")
    path = next(source.rglob("awq/utils/packing_utils.py"))
    spec = spec_from_file_location("packing_utils", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    rng = np.random.default_rng(0)
    rows, columns, size = 64, 24, 32
    words, zeros = (
        rng.integers(-(2**31), 2**31, (n, columns // 8)).astype("int32")
        for n in (rows, rows // size)
    )
    scales = rng.uniform(0.01, 0.1, (rows // size, columns)).astype("float16")
    given = [torch.tensor(x) for x in (words, zeros, scales)]
    whole = module.dequantize_gemm(*given, 4, size).numpy()
    settings = {"bits": 4, "group_size": size, "version": "gemm", "zero_point": True}
    _write("awq", {"qweight": words, "qzeros": zeros, "scales": scales}, whole.T, settings)


def write_gptq(source: Path) -> None:
    """Matrices that AutoGPTQ packs, with groups of neighbours and of others."""
    torch = import_module("torch")
    text = next(source.rglob("nn_modules/qlinear/qlinear_cuda.py")).read_text()
    # Nothing but the packing is used, which needs no other library.
    text = re.sub(
        r"^(import transformers|from (transformers|auto_gptq)).*$", "", text, flags=re.MULTILINE
    )
    names: dict[str, Any] = {"__name__": "qlinear_cuda"}
    exec(text.replace("transformers.pytorch_utils.Conv1D", "()"), names)
    rows, columns, size = 64, 32, 32
    for bits in (2, 3, 4, 8):
        for permuted in (False, True):
            torch.manual_seed(bits)
            layer = names["QuantLinear"](bits, size, rows, columns, False)
            linear = torch.nn.Linear(rows, columns, bias=False)
            groups = torch.arange(rows) // size
            groups = groups[torch.randperm(rows)] if permuted else groups
            scales = (torch.rand(columns, rows // size) * 0.05 + 0.01).half().float()
            zeros = torch.randint(1, 2**bits, (columns, rows // size)).float()
            codes = torch.randint(0, 2**bits, (columns, rows))
            linear.weight.data = (codes - zeros[:, groups]) * scales[:, groups]
            whole = linear.weight.data.numpy().copy()
            layer.pack(linear.half(), scales, zeros, groups.int())
            parts = {name: x.numpy() for name, x in layer.state_dict().items()}
            settings = {"bits": bits, "group_size": size, "desc_act": permuted}
            _write(f"gptq/{bits}{'_permuted' * permuted}", parts, whole, settings)


def _write(name: str, parts: dict[str, Any], whole: Any, settings: dict[str, Any]) -> None:
    folder = DATA / name
    folder.mkdir(parents=True, exist_ok=True)
    known = {"qweight", "qzeros", "scales", "g_idx"}
    arrays = {f"up.{key}": np.ascontiguousarray(x) for key, x in parts.items() if key in known}
    safetensors.numpy.save_file(arrays, folder / "model.safetensors")
    np.save(folder / "whole.npy", whole.astype("float32"))
    config = {"quantization_config": {"quant_method": name.partition("/")[0], **settings}}
    (folder / "config.json").write_text(f"{json.dumps(config, indent=2)}\n")


if __name__ == "__main__":
    write_adapters()
    write_awq(Path(sys.argv[1]))
    write_gptq(Path(sys.argv[2]))

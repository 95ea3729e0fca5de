"""llama.cpp's quantiser without a compiler, run as a script of its own: ``gguf_quantiser.py SOURCE TARGET KIND``.

ggml's own kernels, in the wheel of ``xllamacpp``, quantise; the package ``gguf`` reads and writes the files. Which
tensors keep more bits follows llama.cpp's ``llama-quant.cpp``.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ANEW = ("general.architecture", "general.file_type", "general.quantization_version")
_FILE_TYPES = {"Q8_0": 7, "Q4_K_M": 15, "Q5_K_M": 17}
# What takes the place of a type whose blocks of 256 do not divide a tensor's rows.
_SMALLER = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
# Routers of experts, convolutions and tables that are looked up stay as they are.
_KEPT = ("ffn_gate_inp", "ssm_conv1d", "attn_rel_b", "position_embd", "token_types")


def main() -> None:
    source, target, kind = sys.argv[1:]
    quantise(Path(source), Path(target), kind)


def quantise(source: Path, target: Path, kind: str) -> None:
    """Write ``target``, with the matrices of the GGUF file ``source`` in fewer bits; everything else stays."""
    import gguf

    reader = gguf.GGUFReader(source)
    fields: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
    architecture = fields["general.architecture"]
    writer = gguf.GGUFWriter(target, architecture)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in _ANEW:
            continue
        inner = field.types[-1] if field.types[0] is gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, fields[name], field.types[0], sub_type=inner)
    writer.add_file_type(_FILE_TYPES[kind])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    names = {tensor.name for tensor in reader.tensors}
    layers = int(fields[f"{architecture}.block_count"])
    wanted = [
        _type_of(tensor.name, tensor.shape, kind, layers, tied="output.weight" not in names)
        for tensor in reader.tensors
    ]
    for tensor, name in zip(reader.tensors, wanted, strict=True):
        shape = [int(size) for size in reversed(tensor.shape)]
        kept = gguf.GGMLQuantizationType[name] if name else tensor.tensor_type
        stored = gguf.quant_shape_to_byte_shape(shape, kept)
        writer.add_tensor_info(tensor.name, stored, np.dtype(np.uint8), int(np.prod(stored)), raw_dtype=kept)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor, name in zip(reader.tensors, wanted, strict=True):
        if not name:
            writer.write_tensor_data(tensor.data)
            continue
        weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.write_tensor_data(_quantised(weights, gguf.GGMLQuantizationType[name]))
    writer.close()


def _type_of(name: str, shape: Any, kind: str, layers: int, *, tied: bool) -> str:
    """The type of a tensor, of which the first of ``shape`` is a row's length; "" if it is kept."""
    if len(shape) < 2 or not name.endswith("weight") or any(each in name for each in _KEPT):
        return ""
    wanted = "Q8_0" if kind == "Q8_0" else _mixed(name, kind, layers, tied=tied)
    row = int(shape[0])
    if row % 256 and wanted != "Q8_0":
        wanted = _SMALLER[wanted]
    return wanted if row % 32 == 0 else "F16"


def _mixed(name: str, kind: str, layers: int, *, tied: bool) -> str:
    """The type in Q4_K_M or Q5_K_M, which keep more bits of what hurts most."""
    least = kind[:4]
    if name == "output.weight" or (tied and name == "token_embd.weight"):
        return "Q6_K"
    if "attn_qkv" in name:
        return {"Q4_K": "Q5_K", "Q5_K": "Q6_K"}[least]
    if "attn_v" in name or "ffn_down" in name:
        layer = int(name.split(".")[1])
        eighth = layers // 8
        return "Q6_K" if layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2 else least
    return least


def _quantised(weights: NDArray[np.float32], kind: Any) -> NDArray[np.uint8]:
    import gguf
    from xllamacpp import xllamacpp

    if kind is gguf.GGMLQuantizationType.F16:
        return weights.astype(np.float16).view(np.uint8)
    library = ctypes.CDLL(xllamacpp.__file__)
    chunk = library.ggml_quantize_chunk
    number = ctypes.c_int64
    chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, number, number, number, ctypes.c_void_p]
    chunk.restype = ctypes.c_size_t
    rows = np.ascontiguousarray(weights, np.float32)
    made = np.empty(gguf.quant_shape_to_byte_shape(rows.shape, kind), np.uint8)
    count, length = rows.size // rows.shape[-1], rows.shape[-1]
    written = chunk(int(kind), rows.ctypes.data, made.ctypes.data, 0, count, length, None)
    assert written == made.nbytes, "ggml and the package gguf lay blocks out alike"
    return made


if __name__ == "__main__":
    main()

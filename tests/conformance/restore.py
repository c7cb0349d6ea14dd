"""Writes a GGUF file anew with its matrices in another type: restore.py IN OUT TYPE (F32, F16, BF16, Q8_0, Q4_0 ...).

Vectors stay F32. All keys are kept. Used by the tests, and to make the files that bench/ compares."""

import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize, quantize


def copy_keys(reader, writer):
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)


def restore(source, target, type_name):
    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(str(target), architecture)
    copy_keys(reader, writer)
    want = Type[type_name]
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        kind = want if len(tensor.shape) > 1 else Type.F32
        if kind == Type.F32:
            writer.add_tensor(tensor.name, values)
        elif kind == Type.F16:
            writer.add_tensor(tensor.name, values.astype(np.float16))
        else:
            writer.add_tensor(tensor.name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    restore(*sys.argv[1:])

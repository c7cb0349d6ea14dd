"""Blocks to fp32 and back, bit for bit against gguf-py: src/base/{dtype,dequant,quant,half}.c built as a shared object."""

import ctypes
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

ROOT = Path(__file__).resolve().parents[2]
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K",
         "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS", "MXFP4"]  # enum qr_dtype


class Info(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("ggml_type", ctypes.c_int), ("block", ctypes.c_uint32),
                ("block_bytes", ctypes.c_uint32)]


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    out = tmp_path_factory.mktemp("dequant") / "dequant.so"
    sources = [str(ROOT / "src/base" / f"{name}.c") for name in ("dtype", "dequant", "recode", "quant", "half")]
    subprocess.run([os.environ.get("CC", "gcc"), "-std=c11", "-D_GNU_SOURCE", "-O2", "-ffp-contract=off", "-shared",
                    "-fPIC", f"-I{ROOT}/include", f"-I{ROOT}/src", *sources, "-lm", "-o", str(out)], check=True)
    dll = ctypes.CDLL(str(out))
    dll.qr_dtype_info.restype = ctypes.POINTER(Info)
    dll.qr_dequant.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64]
    dll.qr_quant.argtypes = dll.qr_dequant.argtypes
    dll.qr_quant.restype = ctypes.c_bool
    dll.qr_row_bytes.argtypes = [ctypes.c_int, ctypes.c_uint64]
    dll.qr_row_bytes.restype = ctypes.c_uint64
    dll.qr_ggml_type_name.restype = ctypes.c_char_p
    dll.qr_quant_fp8.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64]
    dll.qr_quant_fp8.restype = ctypes.c_bool
    dll.qr_f8_e4m3_to_f32.argtypes = [ctypes.c_uint8]
    dll.qr_f8_e4m3_to_f32.restype = ctypes.c_float
    return dll


def same_floats(a, b):
    """Equal bits; any NaN equals any NaN."""
    return np.all((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b)))


@pytest.mark.parametrize("name", TYPES)
def test_table(lib, name):
    info = lib.qr_dtype_info(TYPES.index(name)).contents
    kind = GGMLQuantizationType[name]
    assert (info.name.decode(), info.ggml_type) == (name, int(kind))
    assert (info.block, info.block_bytes) == GGML_QUANT_SIZES[kind]
    assert lib.qr_row_bytes(TYPES.index(name), 512) == 512 // info.block * info.block_bytes


def test_names_of_other_types(lib):
    for kind in GGMLQuantizationType:
        assert lib.qr_ggml_type_name(int(kind)) == kind.name.encode()
    assert lib.qr_ggml_type_name(-1) is None
    assert lib.qr_ggml_type_name(9999) is None


@pytest.mark.parametrize("name", TYPES)
def test_dequant_of_random_bytes(lib, name):
    """Random bytes hold every kind of scale: subnormal, negative, infinite, NaN."""
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    n = 4000 if block > 1 else 1 << 17
    raw = np.random.default_rng(7).integers(0, 256, n * size, dtype=np.uint8)
    with np.errstate(all="ignore"):
        want = quants.dequantize(raw.reshape(1, -1), GGMLQuantizationType[name]).ravel()
    for shift in (0, 1):  # an odd address too: safetensors data may lie at one
        moved = np.concatenate([np.zeros(shift, np.uint8), raw])
        got = np.empty(n * block, np.float32)
        lib.qr_dequant(TYPES.index(name), moved.ctypes.data + shift, got.ctypes.data, n * block)
        assert same_floats(got, want)


@pytest.mark.parametrize("name", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
@pytest.mark.parametrize("scale", [1e-9, 1e-4, 0.02, 1.0, 300.0])
def test_quant(lib, name, scale):
    rng = np.random.default_rng(11)
    x = (rng.standard_normal((64, 1024)) * scale).astype(np.float32)
    x[0] = 0
    x[1] = scale
    x[2, ::2] = -x[2, 1::2]  # the extreme value twice, with both signs
    x[3] = np.round(x[3] / scale * 4) / 4 * scale  # ties
    with np.errstate(all="ignore"):
        want = quants.quantize(x, GGMLQuantizationType[name]).view(np.uint8).ravel()
    got = np.empty(want.size, np.uint8)
    assert lib.qr_quant(TYPES.index(name), x.ctypes.data, got.ctypes.data, x.size)
    assert np.array_equal(got, want)


def e4m3(code):
    """OCP 8-bit Floating Point Specification, table 1: bias 7, no infinities, NaN where all of exponent and fraction is set."""
    sign, exponent, fraction = -1 if code & 128 else 1, code >> 3 & 15, code & 7
    if exponent == 15 and fraction == 7:
        return np.nan
    return sign * (fraction / 8 * 2.0**-6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7))


def test_e4m3(lib):
    for code in range(256):
        got, want = lib.qr_f8_e4m3_to_f32(code), e4m3(code)
        assert got == want or (np.isnan(got) and np.isnan(want)), code
        assert np.isnan(want) or np.signbit(got) == bool(code & 128)


def test_quant_refuses_other_types(lib):
    x, out = np.zeros(256, np.float32), np.zeros(256, np.uint8)
    for name in TYPES[6:]:
        assert not lib.qr_quant(TYPES.index(name), x.ctypes.data, out.ctypes.data, 256)


# ---------------------------------------------------------------------- FP8: a bf16 scale and 32 codes of E4M3

FP8 = 18  # enum qr_dtype
LEVELS = np.array([e4m3(code) for code in range(127)])  # ascending


def nearest_codes(y):
    """Of E4M3, for magnitudes; ties to even, what is too large to 448."""
    low = np.searchsorted((LEVELS[1:] + LEVELS[:-1]) / 2, y.astype(np.float64))
    ahead = np.minimum(low + 1, 126)
    tie = (LEVELS[low] + LEVELS[ahead]) / 2 == y
    return np.where(tie & (low % 2 == 1), ahead, low).astype(np.uint8)


def bf16_bits(x):
    u = x.view(np.uint32)
    return ((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(np.uint16)


def fp8_reference(x, importance):
    """x [n, 32]: the scale among 16 of an octave with the least sum of importance times squared error, each operation in fp32."""
    f = np.float32
    most = np.abs(x).max(1) / f(448)
    best, error = np.zeros(len(x), np.uint16), np.full(len(x), np.inf, f)
    for i in range(16):
        bits = bf16_bits(np.clip(most * f(2 ** (i / 16)), f(2.0**-100), f(255)))
        s = (bits.astype(np.uint32) << 16).view(f)
        y = x * (f(1) / s)[:, None]
        e = np.copysign(LEVELS[nearest_codes(np.abs(y))], y).astype(f) - y
        lanes = np.zeros((len(x), 4), f)
        for k in range(0, 32, 4):
            lanes += e[:, k : k + 4] * e[:, k : k + 4] * importance[k : k + 4]
        total = ((lanes[:, 0] + lanes[:, 1]) + (lanes[:, 2] + lanes[:, 3])) * (s * s)
        best = np.where(total < error, bits, best)
        error = np.minimum(total, error)
    s = (best.astype(np.uint32) << 16).view(f)
    y = x * (f(1) / s)[:, None]
    codes = nearest_codes(np.abs(y)) | np.where(np.signbit(y), 128, 0).astype(np.uint8)
    return best, codes, np.copysign(LEVELS[codes & 127], y).astype(f) * s[:, None]


@pytest.mark.parametrize("size", [1e-38, 1e-9, 0.02, 1.0, 2e4])
@pytest.mark.parametrize("weighted", [False, True])
def test_quant_to_fp8(lib, size, weighted):
    rng = np.random.default_rng(12)
    x = (np.clip(rng.standard_normal((4096, 32)), -5, 5) * size).astype(np.float32)
    x[0], x[1] = 0, -size
    x[2:40] = np.round(x[2:40] / size * 4) / 4 * size  # ties
    x[40:80, 1:] *= 1e-3  # down to subnormal codes and below
    importance = rng.exponential(1, 32).astype(np.float32) ** 2 if weighted else np.ones(32, np.float32)
    with np.errstate(all="ignore"):
        scale, codes, numbers = fp8_reference(x, importance)
    got, back = np.empty((len(x), 34), np.uint8), np.empty_like(x)
    for i in range(len(x)):
        assert lib.qr_quant_fp8(x[i].ctypes.data, importance.ctypes.data if weighted else None, got[i].ctypes.data, 32)
    lib.qr_dequant(FP8, got.ctypes.data, back.ctypes.data, x.size)
    assert np.array_equal(got[:, :2].copy().view(np.uint16)[:, 0], scale)
    assert np.array_equal(got[:, 2:], codes)
    assert same_floats(back, numbers)
    if size >= 1e-9:
        rms = lambda e: float(np.sqrt((e.astype(np.float64) ** 2).mean()))
        weight = np.sqrt(importance)
        assert rms((back - x) * weight) < 0.021 * rms(x * weight)  # the scale of the largest number gives 0.025


def test_fp8_refuses_what_it_cannot_hold(lib):
    out = np.zeros(34, np.uint8)
    for bad in (np.nan, np.inf, -np.inf, 448 * 256.0):
        x = np.full(32, 0.5, np.float32)
        x[17] = bad
        assert not lib.qr_quant_fp8(x.ctypes.data, None, out.ctypes.data, 32)
    x[17] = -448 * 255.0
    assert lib.qr_quant_fp8(x.ctypes.data, None, out.ctypes.data, 32) and out[2 + 17] == 0xFE

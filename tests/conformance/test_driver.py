"""What quire says of an NVIDIA driver that is older than its build: a library that stands for one, and only tells its version."""
import os
import subprocess

import pytest

FAKE = r"""
#include <string.h>
static int version(int *v) { *v = 12040; return 0; }
static int nothing(void) { return 801; }
int cuDriverGetVersion(int *v) { return version(v); }
int cuGetProcAddress_v2(const char *name, void **p, int v, unsigned long flags, int *found)
{
    *p = strcmp(name, "cuDriverGetVersion") == 0 ? (void *)version
         : strncmp(name, "cuGetProcAddress", 16) == 0 ? (void *)cuGetProcAddress_v2 : (void *)nothing;
    if (found)
        *found = 0;
    return 0;
}
"""


def test_old_driver(quire, tmp_path):
    source = tmp_path / "driver.c"
    source.write_text(FAKE)
    subprocess.run(["cc", "-w", "-shared", "-fPIC", source, "-o", tmp_path / "libcuda.so.1"], check=True)
    env = dict(os.environ, LD_LIBRARY_PATH=str(tmp_path))
    run = subprocess.run(
        [quire.path, "complete", "dummy:tiny-llama", "--prompt-ids", "1,2", "-n", "1", "--device", "cuda"],
        env=env, capture_output=True, text=True, timeout=60,
    )
    if "this build has no CUDA" in run.stderr:
        pytest.skip("built without CUDA")
    assert run.returncode == 1
    assert "the NVIDIA driver supports CUDA 12.4 but this build needs" in run.stderr
    assert "install a newer driver" in run.stderr
    auto = subprocess.run(
        [quire.path, "complete", "dummy:tiny-llama", "--prompt-ids", "1,2", "-n", "1", "--ignore-eos"],
        env=env, capture_output=True, text=True, timeout=60,
    )
    assert auto.returncode == 0, auto.stderr

// layout.cu - one packed weight and one page format for every number of tokens: equal bits, and what they cost (docs/LAYOUT.md).
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -O3 -std=c++17 -Iinclude -Isrc tests/cuda/layout.cu src/cuda/peer.cu -o build/layout -ldl && build/layout
//
// QUICK=1 in the environment: small sizes, no timing (for compute-sanitizer).
// Arguments choose parts: linear, sweep (linear with other cuts), attention; none: linear and attention. Exit 0: all bits equal.
#include <cstring>
#include "common.cuh"
#include "layout_attention.cuh"
#include "layout_linear.cuh"

int main(int argc, char **argv)
{
    cudaDeviceProp d;
    CHECK(cudaGetDeviceProperties(&d, 0));
    printf("%s, %d SMs\n", d.name, d.multiProcessorCount);
    auto asked = [&](const char *part, bool unasked) {
        for (int i = 1; i < argc; i++)
            if (!strcmp(argv[i], part))
                return true;
        return argc < 2 && unasked;
    };
    if (asked("linear", true))
        test_linear(d.multiProcessorCount, false);
    if (asked("sweep", false))
        test_linear(d.multiProcessorCount, true);
    if (asked("attention", true))
        test_attention(d.multiProcessorCount);
    printf("%s\n", failures ? "FAILED" : "all bits equal, all errors within their limit");
    return failures != 0;
}

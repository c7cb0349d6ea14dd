# cuda.mk - how the kernels are compiled. Without nvcc, and under sanitizers, src/cuda/none.c stands for them all.
#
# CUDA=0 leaves CUDA out. CUDA_ARCH names what to compile for ("80 90a"); by itself: the devices that are here, or, where there
# are none, the oldest and the newest in use. RELEASE=1: all that quire knows, and PTX for what comes after them, packed tightly:
# kernels of 28 MB become 4 (drivers of CUDA 12.4 and later unpack them).
CUDA ?= 1
NVCC := $(if $(SAN),,$(if $(filter 1,$(CUDA)),$(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc) \
        $(wildcard /usr/local/cuda/bin/nvcc))))
ifneq ($(NVCC),)
CUDA_ROOT := $(patsubst %/bin/nvcc,%,$(shell readlink -f $(NVCC)))
CUDA_LIB  := $(patsubst %/libcudart_static.a,%,$(firstword $(wildcard $(CUDA_ROOT)/lib64/libcudart_static.a \
             $(CUDA_ROOT)/targets/*/lib/libcudart_static.a /usr/lib/*/libcudart_static.a)))
CUDA_INCLUDE := $(if $(wildcard $(CUDA_ROOT)/include/cuda_runtime.h),-isystem $(CUDA_ROOT)/include)

HERE_ARCH := $(subst .,,$(sort $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null)))
CUDA_ARCH ?= $(if $(RELEASE),80 86 89 90a 100 120,$(or $(patsubst 90,90a,$(filter-out %[a-zA-Z],$(HERE_ARCH))),80 90a))
CUDA_PTX  ?= $(if $(RELEASE),80 120)
NVCCFLAGS := -O2 -std=c++17 --threads 0 -Xcompiler -Wall,-Wextra,-fno-exceptions,-fno-threadsafe-statics,-fPIC -Iinclude -Isrc -MMD -MP \
             $(if $(RELEASE),--compress-mode=size) $(foreach a,$(CUDA_ARCH),-gencode=arch=compute_$(a),code=sm_$(a)) \
             $(foreach a,$(CUDA_PTX),-gencode=arch=compute_$(a),code=compute_$(a))

CUDA_C   := $(filter-out src/cuda/none.c,$(wildcard src/cuda/*.c))
CUDA_OBJ := $(patsubst src/cuda/%.cu,$(B)/obj/cuda/%.cu.o,$(wildcard src/cuda/*.cu))
CUDA_LIBS := $(if $(CUDA_LIB),-L$(CUDA_LIB)) -lcudart_static -lrt
LIBS += $(CUDA_LIBS)
# A test that looks into the executor's host code has to know that it is there.
$(B)/testobj/cuda/test_decode_step.o: CFLAGS += $(CUDA_INCLUDE) -DQR_TEST_CUDA
else
CUDA_C := src/cuda/none.c src/cuda/sample_pack.c
endif

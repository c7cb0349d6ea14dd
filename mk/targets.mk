# targets.mk - what a person types, apart from building.
.PHONY: help run deps test test-quick test-long bench cuda-check cuda-objects gpu-test gpu-check gpu-profile gpu-sanitize gpu-bench format lint install uninstall clean model venv clients

help:
	@echo 'make              build build/quire, build/libquire.a and the examples'
	@echo 'make run          install what is missing, build, fetch the default model, ask it a question (PROMPT="...")'
	@echo 'make deps         install the Debian packages for run, test and lint that are missing'
	@echo 'make test         all but the GPU: C tests plain and under sanitizers, Python tests, valgrind, rules of the code'
	@echo 'make test-quick   the C tests, plain build only; of one part with PART=base'
	@echo 'make test-long    tests with longer searches (QUIRE_LONG=1), Python tests against the sanitized binary too'
	@echo 'make fuzz         the fuzzers, FUZZ_SECONDS=$(FUZZ_SECONDS) each (make test runs them too, make test-long for minutes)'
	@echo 'make clients      install lm-eval and aiperf for the tests of the server (1 GB)'
	@echo 'make bench        speed of the default model and of each kernel'
	@echo 'make cuda-check   compile the CUDA sources, where nvcc is installed'
	@echo 'make gpu-test     the tests of the CUDA executor, where there is a GPU; make gpu-bench: its speed'
	@echo 'make gpu-check    2,000 decode steps each of three models: the decode kernel against the plan, bit for bit'
	@echo 'make gpu-profile  where the time of one layer of the decode kernel goes, us; make gpu-sanitize: it under compute-sanitizer'
	@echo 'make format       clang-format all sources'
	@echo 'make lint         clang-format (check only), clang-tidy, cppcheck'
	@echo 'make install      into PREFIX ($(PREFIX)), below DESTDIR; make uninstall takes it away'
	@echo 'make clean        remove $(ROOT)/'
	@echo 'SAN=address or SAN=thread builds with sanitizers into $(ROOT)/address, $(ROOT)/thread'

# ---------------------------------------------------------------- first contact
PROMPT ?= What is the capital of France?
export PROMPT

run:
	@tools/deps.sh run
	@$(MAKE) --no-print-directory $(B)/quire
	@tools/fetch_default_model.sh
	@echo "> $$PROMPT"
	@$(B)/quire complete --chat -p "$$PROMPT" --temperature 0

deps:
	@tools/deps.sh run test lint

model:
	@tools/fetch_default_model.sh

# ---------------------------------------------------------------- tests
VENV := $(ROOT)/venv
# Clients that the tests of the server run as programs: 1 GB, for make test-long.
CLIENTS := $(ROOT)/venv-clients
$(VENV)/.done: tests/conformance/requirements.txt
$(CLIENTS)/.done: tests/conformance/requirements-clients.txt
$(VENV)/.done $(CLIENTS)/.done:
	@echo "  VENV    $(@D)"
	@rm -rf $(@D)
	@python3 -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@
venv: $(VENV)/.done
clients: $(CLIENTS)/.done

# Under ThreadSanitizer: what has threads; but for the whole default model, which tiny ones stand for there.
THREADED := $(filter-out tests/engine/test_expected.c tests/engine/test_form.c,$(wildcard tests/engine/test_*.c)) tests/base/test_pool.c \
            tests/base/test_mapfile.c tests/server/test_serve.c tests/text/test_grammar.c
TSAN_TESTS := $(patsubst tests/%.c,$(ROOT)/thread/test/%,$(THREADED))
# The longest first, so that none is left to run alone at the end.
LONGEST_FIRST := $(filter $(B)/test/whole/%,$(TESTS)) $(filter-out $(B)/test/whole/%,$(TESTS))
ASAN_TESTS := $(patsubst $(B)/%,$(ROOT)/address/%,$(LONGEST_FIRST))
PLAIN_TESTS := $(patsubst $(B)/%,$(ROOT)/%,$(LONGEST_FIRST))

# Python tests and checks run the plain binary, so that their time is not the sanitizers'.
export QUIRE = $(abspath $(ROOT)/quire)
RULES := --check includes "tools/check_includes.py" --check symbols "tools/check_symbols.py $(ROOT)/libquire.a"
CHECKS := $(RULES) --check valgrind "tools/check_valgrind.sh $(ROOT)/quire" --check install "tools/check_install.sh $(ROOT)"
# They run side by side, where an engine on a GPU would take what the others need; gpu-test has those of the GPU.
NO_GPU := CUDA_VISIBLE_DEVICES=
PYTEST := --pytest $(VENV)/bin/python tests/conformance

test-programs:
	@$(MAKE) --no-print-directory SAN= all tests
	@$(MAKE) --no-print-directory SAN=address tests
	@$(MAKE) --no-print-directory SAN=thread $(TSAN_TESTS)
	@$(MAKE) --no-print-directory SAN= fuzz-programs
	@$(MAKE) --no-print-directory venv
	@tools/fetch_default_model.sh || echo "no default model: the tests that need it will be skipped"

test:
	@tools/deps.sh run test
	@$(MAKE) --no-print-directory test-programs
	@$(NO_GPU) tools/run_tests.py $(PYTEST) $(CHECKS) $(FUZZ_CHECKS) $(ASAN_TESTS) $(PLAIN_TESTS) $(TSAN_TESTS)

PART ?= *
test-quick:
	@$(MAKE) --no-print-directory SAN= $(patsubst tests/%.c,$(ROOT)/test/%,$(wildcard tests/$(PART)/test_*.c))
	@$(NO_GPU) tools/run_tests.py --check includes "tools/check_includes.py" \
	    $(patsubst tests/%.c,$(ROOT)/test/%,$(wildcard tests/$(PART)/test_*.c))

# QUIRE_LONG=1 tells tests to search longer: more random inputs, more fault points.
test-long: FUZZ_SECONDS = 600
test-long:
	@tools/deps.sh run test
	@$(MAKE) --no-print-directory test-programs clients
	@$(MAKE) --no-print-directory SAN=address $(ROOT)/address/quire
	@QUIRE_LONG=1 $(NO_GPU) tools/run_tests.py --timeout 3600 --pytest-timeout 7200 $(PYTEST) $(CHECKS) \
	    $(FUZZ_CHECKS) $(ASAN_TESTS) $(PLAIN_TESTS) $(TSAN_TESTS)
	@QUIRE_LONG=1 $(NO_GPU) QUIRE=$(abspath $(ROOT)/address/quire) tools/run_tests.py --pytest-timeout 7200 $(PYTEST)

# ---------------------------------------------------------------- speed
bench: $(B)/quire model
	$(B)/quire bench latency
	$(B)/quire bench kernels

# ---------------------------------------------------------------- CUDA
# Compiled for the oldest and the newest architecture in use; without nvcc there is nothing to check. Where there is no
# GPU these are the objects that `make` links.
CHECK_ROOT := $(ROOT)$(if $(HERE_ARCH),/check)
CHECK_OBJ := $(patsubst tests/cuda/%.cu,$(B)/testobj/cuda/%.cu.o,$(wildcard tests/cuda/*.cu))
cuda-check:
	@$(if $(NVCC),$(MAKE) --no-print-directory ROOT=$(CHECK_ROOT) CUDA_ARCH="80 90a" cuda-objects,\
	echo "cuda-check: no nvcc here, nothing compiled")
cuda-objects: $(call lib,cuda) $(CHECK_OBJ) $(B)/on_cpu/quant $(B)/gpu/decode_stages $(B)/gpu/decode_profile $(B)/gpu/decode_check
	@$(B)/on_cpu/quant
# Kernels without a GPU: tests/cuda/on_cpu stands in front of two headers of theirs.
ON_CPU_CXX := $(CXX) -x c++ -std=c++17 -g -O1 -fsanitize=address -Wno-attributes -Itests/cuda/on_cpu -Isrc -Iinclude $(CUDA_INCLUDE) -pthread
$(B)/on_cpu/%: tests/cuda/on_cpu/%.cc src/cuda/linear_%.cu src/cuda/embed_%.cu $(wildcard src/cuda/*.cuh src/cuda/*.h tests/cuda/*.cuh tests/cuda/on_cpu/cuda/*) $(call lib,cuda) $(call lib,base)
	@mkdir -p $(@D)
	@echo "  CXX     $@"
	@$(ON_CPU_CXX) $(filter %.cc %.cu,$^) -x none $(call lib,base) $(B)/obj/cuda/quant_pack.o -lm -o $@
$(B)/testobj/cuda/%.cu.o: tests/cuda/%.cu $(B)/flags-cuda.txt
	@mkdir -p $(@D)
	@echo "  NVCC    $<"
	@$(NVCC) $(NVCCFLAGS) -c $< -o $@

# QUIRE_GPU=1: a test that finds no GPU fails in place of being skipped.
GPU_TESTS := $(patsubst tests/%.c,$(B)/test/%,$(wildcard tests/cuda/test_*.c))
GPU_MODEL ?= dummy:qwen2.5-1.5b
$(B)/gpu/%: tests/cuda/%.cu $(B)/libquire.a
	@mkdir -p $(@D)
	@echo "  NVCC    $@"
	@$(NVCC) $(NVCCFLAGS) $< $(B)/libquire.a $(LIBS) -o $@
GPU_PROGRAMS := $(if $(NVCC),$(patsubst tests/cuda/%.cu,$(B)/gpu/%,$(wildcard tests/cuda/test_*.cu)) $(B)/gpu/decode_stages)
gpu-test: $(B)/quire $(GPU_TESTS) $(GPU_PROGRAMS)
	@QUIRE_GPU=1 tools/run_tests.py --jobs 1 $(GPU_TESTS)
	@for t in $(GPU_PROGRAMS); do echo $$t; QUICK=1 $$t || exit 1; done

# Programs that look into the persistent kernel, which is built for them once more: decode_stages ends it anywhere (decode_debug.cuh),
# decode_profile says when its warps are where. The object in front of the archive takes the place of the one inside. decode_check takes the
# kernel as it is.
DECODE_NVCCFLAGS := $(filter-out -gencode%,$(NVCCFLAGS)) -gencode=arch=compute_90a,code=sm_90a -lineinfo
$(B)/gpu/decode_stages.cu.o: DECODE_NVCCFLAGS += -DQR_DECODE_DEBUG
$(B)/gpu/decode_profile.cu.o: DECODE_NVCCFLAGS += -DQR_DECODE_PROFILE
$(B)/gpu/decode_%.cu.o: src/cuda/decode_step.cu $(B)/flags-cuda.txt
	@mkdir -p $(@D)
	@echo "  NVCC    $< for $(notdir $*)"
	@$(NVCC) $(DECODE_NVCCFLAGS) -c $< -o $@
$(B)/testobj/cuda/decode/%.o: CFLAGS += $(CUDA_INCLUDE)
$(B)/gpu/decode_%: $(B)/testobj/cuda/decode/%.o $(B)/testobj/cuda/decode/steps.o $(B)/libquire.a
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(LIBS) -o $@
$(B)/gpu/decode_stages $(B)/gpu/decode_profile: %: %.cu.o

gpu-check: $(B)/gpu/decode_check model
	$< $(GPU_MODEL)
	$< dummy:llama-3.2-1b
	$< "$${XDG_CACHE_HOME:-$$HOME/.cache}/quire/SmolLM2-135M-Instruct.Q4_1.gguf" --convert
gpu-profile: $(B)/gpu/decode_profile
	$(B)/gpu/decode_profile $(GPU_MODEL)
	$(B)/gpu/decode_profile $(GPU_MODEL) --quantization fp8

# The persistent kernel under each tool: one sequence and several, contexts of one cut of attention, of two and of many, packed weights.
# racecheck is printed and never fails: docs/KERNELS.md says what it takes for a race here and why. It knows the small kernels of few
# tokens (--chunk), not linear_cluster.cuh's.
SANITIZER ?= $(firstword $(wildcard $(CUDA_ROOT)/bin/compute-sanitizer) compute-sanitizer)
gpu-sanitize: $(B)/gpu/decode_stages
	@for t in memcheck initcheck; do for c in 20 270,9 3200,9 "270,9 --quantization fp8"; do echo "$$t, context $$c"; \
	    $(SANITIZER) --tool $$t --error-exitcode 1 $< tiny --context $$c --steps 2 --stage logits || exit 1; done; done
	@for c in 6 270,7; do echo "racecheck, context $$c"; \
	    $(SANITIZER) --tool racecheck --racecheck-report analysis --kernel-name kns=decode_step $< tiny --context $$c --chunk 8 --stage logits; done

gpu-bench: $(B)/quire
	$(B)/quire version
	$(B)/quire bench latency $(GPU_MODEL) --device cuda
	$(B)/quire bench latency $(GPU_MODEL) --device cuda --input-len 1024 --max-num-batched-tokens 4096
	$(B)/quire bench throughput $(GPU_MODEL) --device cuda --max-num-seqs 256 --max-num-batched-tokens 4096
	$(B)/quire bench ablate $(GPU_MODEL)
	$(B)/quire bench kernels --device cuda

# ---------------------------------------------------------------- style
SOURCES := $(sort $(wildcard include/*.h src/*/*.[ch] src/*/*/*.[ch] tests/*/*.[ch] tests/cuda/decode/*.[ch] examples/*.[ch]))
UNITS := $(filter src/%.c examples/%.c,$(SOURCES))
# clang 14 knows no "f16c" in __builtin_cpu_supports; without CUDA its headers are missing
TIDY_UNITS := $(filter-out src/cpu/isa.c $(if $(NVCC),,$(filter-out src/cuda/none.c,$(wildcard src/cuda/*.c))),$(UNITS))
LINT_FLAGS := -std=c11 -D_GNU_SOURCE -DQR_ISA=c -Iinclude -Isrc $(CUDA_INCLUDE)

format:
	@tools/deps.sh lint
	@clang-format -i $(SOURCES)

lint:
	@tools/deps.sh run lint
	@clang-format --dry-run -Werror $(SOURCES)
	@printf '%s\n' $(TIDY_UNITS) | xargs -P $$(nproc) -n 1 sh -c 'clang-tidy --quiet "$$0" -- $(LINT_FLAGS) 2>/dev/null'
	@cppcheck --quiet --std=c11 -j $$(nproc) --error-exitcode=1 --inline-suppr --enable=warning,performance,portability \
	    --suppress=missingIncludeSystem --suppress=unknownMacro --suppress=arrayIndexOutOfBoundsCond -D_GNU_SOURCE -DQR_ISA=c -Iinclude -Isrc $(UNITS)
	@tools/check_includes.py

# ---------------------------------------------------------------- installing
install: $(B)/quire $(B)/libquire.a
	install -D -m 755 $(B)/quire $(DESTDIR)$(PREFIX)/bin/quire
	install -D -m 644 include/quire.h $(DESTDIR)$(PREFIX)/include/quire.h
	install -D -m 644 $(B)/libquire.a $(DESTDIR)$(PREFIX)/lib/libquire.a
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|;s|@CUDA_LIBS@|$(CUDA_LIBS)|' mk/quire.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/quire.pc
	install -D -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/quire/LICENSE

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/quire $(DESTDIR)$(PREFIX)/include/quire.h $(DESTDIR)$(PREFIX)/lib/libquire.a
	rm -f $(DESTDIR)$(PREFIX)/lib/pkgconfig/quire.pc $(DESTDIR)$(PREFIX)/share/doc/quire/LICENSE

clean:
	rm -rf $(ROOT)

# fuzz.mk - libFuzzer targets: tests/fuzz/fuzz_NAME.c becomes build/fuzz-NAME, by clang, whose libFuzzer they need.
# Only the parts that read what strangers made are compiled again, with coverage and sanitizers.
CLANG      := $(shell command -v clang)
# A clang without its run time libraries (Debian's libclang-rt-dev) cannot link a fuzzer: as if there were none.
CLANG      := $(if $(wildcard $(if $(CLANG),$(shell $(CLANG) -print-resource-dir)/lib/*/libclang_rt.fuzzer*)),$(CLANG))
FUZZ       := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SAN   := -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all
FUZZ_CFLAGS := -std=c11 -D_GNU_SOURCE -g -O2 -Wall -fno-strict-aliasing -fno-omit-frame-pointer -Iinclude -Isrc -Itests \
               -MMD -MP -DQR_COMMIT='"fuzz"' $(FUZZ_SAN) -fsanitize=fuzzer-no-link
FUZZ_SRC   := $(wildcard src/base/*.c src/text/*.c src/model/*.c) src/engine/model_text.c
FUZZ_HELP  := $(filter-out tests/fuzz/fuzz_%,$(wildcard tests/fuzz/*.c))
FUZZ_LIB   := $(ROOT)/fuzzobj/libquire.a
comma := ,
# The readers see files in memory: tests/fuzz/memory_files.h.
FUZZ_WRAP  := $(addprefix -Wl$(comma)--wrap=,qr_map_open qr_map_close qr_map_forget qr_map_guard qr_json_file access)
FUZZ_SECONDS ?= 10

$(FUZZ_LIB): $(patsubst src/%.c,$(ROOT)/fuzzobj/%.o,$(FUZZ_SRC))
	@rm -f $@
	@$(AR) rcs $@ $^
$(ROOT)/fuzzobj/%.o: src/%.c
	@mkdir -p $(@D)
	@echo "  CLANG   $<"
	@$(CLANG) $(FUZZ_CFLAGS) -c $< -o $@
$(ROOT)/fuzzobj/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	@$(CLANG) $(FUZZ_CFLAGS) -c $< -o $@
$(ROOT)/fuzz-%: $(ROOT)/fuzzobj/tests/fuzz/fuzz_%.o $(patsubst %.c,$(ROOT)/fuzzobj/%.o,$(FUZZ_HELP)) $(FUZZ_LIB)
	@echo "  LINK    $@"
	@$(CLANG) -fsanitize=fuzzer $(FUZZ_SAN) $^ $(FUZZ_WRAP) -pthread $(LIBS) -o $@

.PHONY: fuzz fuzz-programs
fuzz-programs: $(if $(CLANG),$(addprefix $(ROOT)/fuzz-,$(FUZZ)))
# Each for FUZZ_SECONDS, side by side.
FUZZ_CHECKS = $(foreach n,$(FUZZ),--check fuzz-$(n) "tools/run_fuzz.sh $(ROOT) $(n) $(FUZZ_SECONDS)")
fuzz: fuzz-programs
	@tools/run_tests.py $(FUZZ_CHECKS)

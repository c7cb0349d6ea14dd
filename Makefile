# quire - see README.md. `make` builds build/quire; `make help` lists the rest.
#
# Each folder of src/ becomes one archive; a test links only the archives that its part may know, so the arrows
# between the parts (docs/DESIGN.md) hold at link time too. SAN=address|thread picks a sanitizer, each with a
# folder of its own under build/.

# As many jobs as CPUs, unless make was told a number.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif

CC      := gcc
AR      := ar
SAN     ?=
ROOT    := build
B       := $(ROOT)$(if $(SAN),/$(SAN))
PREFIX  ?= /usr/local
DESTDIR ?=
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

OPT     ?= $(if $(SAN),-O1,-O2)
WARN    := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith
CFLAGS  := -std=c11 -D_GNU_SOURCE -g $(OPT) $(WARN) -fno-strict-aliasing -ffp-contract=off -fno-math-errno \
           -fstack-protector-strong -Iinclude -Isrc -MMD -MP
LDFLAGS := -pthread
ifneq ($(SAN),) # gcc sees less of the values there and warns of what cannot happen
CFLAGS  += -Wno-format-truncation -Wno-maybe-uninitialized
endif
ifeq ($(SAN),address)
CFLAGS  += -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
endif
ifeq ($(SAN),thread)
CFLAGS  += -fsanitize=thread
LDFLAGS += -fsanitize=thread
endif

# Statically linked where Debian has the archive: the binary needs glibc and nothing else.
LIBS    := -l:libevent_core.a -l:libhttp_parser.a -l:libjansson.a -l:libpcre2-8.a -l:libutf8proc.a -l:libmd.a -lm -ldl
CLILIBS := -l:libedit.a -l:libtinfo.a -l:libbsd.a -l:libmd.a

include mk/cuda.mk

# ---------------------------------------------------------------- parts and the archives they may link
PARTS   := base text model plan arch cpu cuda engine server
NEEDS_base   := base
NEEDS_text   := text base
NEEDS_model  := model base
NEEDS_plan   := plan base
NEEDS_arch   := arch plan model base
NEEDS_cpu    := cpu plan base
NEEDS_cuda   := cuda plan base
NEEDS_engine := engine arch cpu cuda plan model text base
NEEDS_server := server $(NEEDS_engine)
NEEDS_whole  := $(NEEDS_engine)
NEEDS_cli    := $(NEEDS_server)

# src/cpu/isa/*.c is compiled once per instruction set, with QR_ISA naming its table.
ISAS       := c avx2 avx512
# Sanitizer builds stay at -O1, and none tracks variables: fully unrolled kernels would take minutes to compile.
ISA_OPT    := $(if $(SAN),-O1,-O3) -fno-var-tracking
ISA_c      := -DQR_ISA=c $(OPT) -fno-var-tracking # every vector a loop: -O3 takes twice as long to compile
ISA_avx2   := -DQR_ISA=avx2 -DQR_AVX2 -mavx2 -mfma -mf16c $(ISA_OPT)
ISA_avx512 := -DQR_ISA=avx512 -DQR_AVX512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c $(ISA_OPT)

lib = $(B)/lib$(1).a
objs = $(patsubst src/%.c,$(B)/obj/%.o,$(if $(filter cuda,$(1)),$(CUDA_C),$(wildcard src/$(1)/*.c))) \
       $(if $(filter cuda,$(1)),$(CUDA_OBJ))
ISA_SRC := $(wildcard src/cpu/isa/*.c)
ISA_OBJ := $(foreach i,$(ISAS),$(patsubst src/cpu/isa/%.c,$(B)/obj/cpu/isa/%.$(i).o,$(ISA_SRC)))

.PHONY: all
all: $(B)/quire $(B)/libquire.a $(patsubst examples/%.c,$(B)/examples/%,$(wildcard examples/*.c))

define part_rule
$(call lib,$(1)): $(call objs,$(1)) $(if $(filter cpu,$(1)),$(ISA_OBJ)) $(if $(filter cuda,$(1)),$(B)/flags-cuda.txt)
	@rm -f $$@
	@$(AR) rcs $$@ $$(filter %.o,$$^)
endef
$(foreach p,$(PARTS),$(eval $(call part_rule,$(p))))

# Files that change only with what they hold: objects are rebuilt when the flags change, version.o with the commit.
define stamp_rule
$(B)/$(1): FORCE
	@mkdir -p $$(@D)
	@echo '$(2)' | cmp -s - $$@ || echo '$(2)' > $$@
endef
.PHONY: FORCE
$(eval $(call stamp_rule,commit.txt,$(COMMIT)))
$(eval $(call stamp_rule,flags.txt,$(CC) $(CFLAGS)))
$(eval $(call stamp_rule,flags-cuda.txt,$(NVCC) $(NVCCFLAGS)))
$(foreach i,$(ISAS),$(eval $(call stamp_rule,flags-$(i).txt,$(ISA_$(i)))))

$(B)/obj/base/version.o: CFLAGS += -DQR_COMMIT='"$(COMMIT)"'
$(B)/obj/base/version.o: $(B)/commit.txt
$(B)/obj/%.o: src/%.c $(B)/flags.txt
	@mkdir -p $(@D)
	@echo "  CC      $<"
	@$(CC) $(CFLAGS) -c $< -o $@

$(patsubst src/%.c,$(B)/obj/%.o,$(CUDA_C)): CFLAGS += $(CUDA_INCLUDE)
$(B)/obj/cuda/%.cu.o: src/cuda/%.cu $(B)/flags-cuda.txt
	@mkdir -p $(@D)
	@echo "  NVCC    $<"
	@$(NVCC) $(NVCCFLAGS) -c $< -o $@

# The chat page: one file, joined from src/server/page, which page.c has the assembler put into the binary.
PAGE := $(B)/page/chat.html
$(PAGE) $(B)/page/chat.fields &: tools/join_page.py $(wildcard src/server/page/*)
	@mkdir -p $(@D)
	@echo "  JOIN    $(PAGE)"
	@tools/join_page.py src/server/page/chat.html $(PAGE) $(B)/page/chat.fields
$(B)/obj/server/page.o: CFLAGS += -Wa,-I$(B)/page
$(B)/obj/server/page.o: $(PAGE) $(B)/page/chat.fields

define isa_rule
$(B)/obj/cpu/isa/%.$(1).o: src/cpu/isa/%.c $(B)/flags.txt $(B)/flags-$(1).txt
	@mkdir -p $$(@D)
	@echo "  CC $(1)  $$<"
	@$(CC) $(CFLAGS) $(ISA_$(1)) -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))

CLI_OBJ := $(call objs,cli)
$(B)/quire: $(CLI_OBJ) $(foreach p,$(NEEDS_cli),$(call lib,$(p)))
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $^ $(LIBS) $(CLILIBS) -o $@

# One archive with every part but the command line, for programs that include quire.h.
$(B)/libquire.a: $(foreach p,$(PARTS),$(call objs,$(p))) $(ISA_OBJ) $(B)/flags-cuda.txt
	@rm -f $@
	@$(AR) rcs $@ $(filter %.o,$^)
$(B)/examples/%: examples/%.c $(B)/libquire.a
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) $< $(B)/libquire.a $(LDFLAGS) $(LIBS) -o $@

# ---------------------------------------------------------------- tests
# tests/PART/test_NAME.c becomes build/test/PART/test_NAME, linked with the archives of NEEDS_PART and, where it
# exists, the helpers tests/PART/*.c and tests/common/*.c that do not start with test_.
TESTS := $(patsubst tests/%.c,$(B)/test/%,$(wildcard tests/*/test_*.c))
helpers = $(patsubst tests/%.c,$(B)/testobj/%.o,$(filter-out tests/$(1)/test_%,$(wildcard tests/$(1)/*.c)) $(wildcard tests/common/*.c) $(HELPERS_$(1)))
HELPERS_cuda    := tests/whole/ref_forward.c tests/whole/runner.c tests/engine/ask.c
NEEDS_TEST_cuda := $(NEEDS_whole) # the GPU against the oracle, from a file to logits
$(B)/testobj/%.o: tests/%.c $(B)/flags.txt
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) -Itests -c $< -o $@
tested_with = $(foreach p,$(or $(NEEDS_TEST_$(1)),$(NEEDS_$(1))),$(call lib,$(p)))
define test_rule
$(B)/test/$(1)/%: $(B)/testobj/$(1)/%.o $(call helpers,$(1)) $(call tested_with,$(1))
	@mkdir -p $$(@D)
	@echo "  LINK    $$@"
	@$(CC) $(LDFLAGS) $$^ -lcmocka $(LIBS) $$(TEST_LDFLAGS_$(1)) -o $$@
endef
$(foreach p,$(PARTS) whole,$(eval $(call test_rule,$(p))))
.SECONDARY:

.PHONY: tests
tests: $(TESTS)

include mk/fuzz.mk
include mk/targets.mk

-include $(shell find $(B) -path '*/venv*' -prune -o -type f -name '*.d' -print 2>/dev/null)

/* memory_files.h - files that live in memory, in place of the disk, for fuzz targets.
 *
 * A fuzz program is linked with --wrap for qr_map_open and what goes with it (mk/fuzz.mk), so that the readers of model
 * files see these. Each mapping is a block of exactly the file's size, so that AddressSanitizer sees a read past its
 * end, which in a real mapping would find zeros up to the end of the page; and no run waits for the disk. */
#ifndef TESTS_FUZZ_MEMORY_FILES_H
#define TESTS_FUZZ_MEMORY_FILES_H
#include <stddef.h>
#include <stdint.h>

/* Puts a file in place of the one of that name (the last part of a path), or takes it away (data NULL). data must
 * outlive its use. */
void memory_file(const char *name, const void *data, size_t n);

#endif

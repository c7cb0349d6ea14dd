/* test_mapfile.c - files mapped and read, what is refused, a file cut while mapped, and atomic writes. */
#include "base/mapfile.h"
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <pthread.h>
#include <unistd.h>
#include <cmocka.h>
#include "common/fault.h"
#include "common/tmp.h"

static void maps_what_the_file_holds(void **state)
{
    const char *path = tmp_write(state, "a", "hello world", 11);
    struct qr_map map;
    struct qr_err err;

    assert_int_equal(qr_map_open(path, &map, &err), QR_OK);
    assert_int_equal(map.size, 11);
    assert_memory_equal(map.data, "hello world", 11);
    assert_string_equal(map.path, path);
    qr_map_forget(&map, 3, 100);
    qr_map_forget(&map, 100, 100);
    qr_map_forget(&map, 0, UINT64_MAX);
    assert_memory_equal(map.data, "hello world", 11); /* still readable */
    qr_map_close(&map);
    assert_null(map.data);
    qr_map_close(&map);

    path = tmp_write(state, "empty", "", 0);
    assert_int_equal(qr_map_open(path, &map, &err), QR_OK);
    assert_null(map.data);
    assert_int_equal(map.size, 0);
    qr_map_forget(&map, 0, 1);
    qr_map_close(&map);
}

static void refuses_what_is_no_regular_file(void **state)
{
    const char *fifo = tmp_path(state, "fifo");
    struct qr_map map = {.size = 9};
    struct qr_err err;
    size_t n;
    char *data;

    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(qr_map_open(fifo, &map, &err), QR_IO); /* and does not wait for a writer */
    assert_non_null(strstr(err.message, "FIFO"));
    assert_int_equal(map.size, 0);
    assert_int_equal(qr_map_open("/dev/zero", &map, &err), QR_IO);
    assert_int_equal(qr_map_open("/", &map, &err), QR_IO);
    assert_non_null(strstr(err.message, "directory"));
    assert_int_equal(qr_map_open(tmp_path(state, "none"), &map, &err), QR_NOTFOUND);
    assert_non_null(strstr(err.message, "none"));
    assert_int_equal(qr_read_file("/dev/zero", 100, &data, &n, &err), QR_IO);
    assert_int_equal(qr_read_file("/", 100, &data, &n, &err), QR_IO);
    assert_null(data);
}

static void reads_whole_files_up_to_the_cap(void **state)
{
    const char *path = tmp_write(state, "a", "abc\0def", 7);
    struct qr_err err;
    size_t n;
    char *data;

    assert_int_equal(qr_read_file(path, 7, &data, &n, &err), QR_OK);
    assert_int_equal(n, 7);
    assert_memory_equal(data, "abc\0def", 8);
    free(data);
    assert_int_equal(qr_read_file(path, 6, &data, &n, &err), QR_LIMIT);
    assert_non_null(strstr(err.message, "7"));
    assert_non_null(strstr(err.message, "6"));
    path = tmp_write(state, "empty", "", 0);
    assert_int_equal(qr_read_file(path, 0, &data, &n, &err), QR_OK);
    assert_int_equal(n, 0);
    assert_string_equal(data, "");
    free(data);
    /* a file whose size the system does not tell beforehand */
    assert_int_equal(qr_read_file("/proc/self/status", 1 << 20, &data, &n, &err), QR_OK);
    assert_true(n > 100 && strlen(data) == n);
    free(data);
    assert_int_equal(qr_read_file("/proc/self/status", 50, &data, &n, &err), QR_LIMIT);
}

struct sum_job {
    const struct qr_map *map;
    uint64_t sum;
};

static enum qr_status sum_bytes(void *ctx, struct qr_err *err)
{
    struct sum_job *job = ctx;

    (void)err;
    job->sum = 0;
    for (uint64_t i = 0; i < job->map->size; i++)
        job->sum += *(const volatile uint8_t *)(job->map->data + i);
    return QR_OK;
}

static enum qr_status fail_inside(void *ctx, struct qr_err *err)
{
    (void)ctx;
    return qr_fail(err, QR_FORMAT, "from inside");
}

/* A guard of another map inside: the fault belongs to the outer one. */
static enum qr_status sum_below_another_guard(void *ctx, struct qr_err *err)
{
    static const struct qr_map other = {.path = (char *)"other"};

    return qr_map_guard(&other, sum_bytes, ctx, err);
}

#define CUT_SIZE 100000

static void cut_file(void *const *state, struct qr_map *map)
{
    char *data = malloc(CUT_SIZE);
    const char *path;

    assert_non_null(data);
    memset(data, 1, CUT_SIZE);
    path = tmp_write(state, "cut", data, CUT_SIZE);
    free(data);
    assert_int_equal(qr_map_open(path, map, NULL), QR_OK);
}

static void a_file_cut_while_mapped_is_an_error(void **state)
{
    struct qr_map map;
    struct qr_err err;
    struct sum_job job = {.map = &map};

    cut_file(state, &map);
    assert_int_equal(qr_map_guard(&map, sum_bytes, &job, &err), QR_OK);
    assert_int_equal(job.sum, CUT_SIZE);
    assert_int_equal(qr_map_guard(&map, fail_inside, NULL, &err), QR_FORMAT);
    assert_string_equal(err.message, "from inside");
    assert_int_equal(truncate(map.path, 5000), 0);
    for (int i = 0; i < 3; i++) { /* again and again: the signal is not left blocked */
        assert_int_equal(qr_map_guard(&map, sum_bytes, &job, &err), QR_IO);
        assert_non_null(strstr(err.message, "shorter than the 100000 bytes"));
    }
    assert_int_equal(qr_map_guard(&map, sum_below_another_guard, &job, &err), QR_IO);
    assert_non_null(strstr(err.message, map.path));
    qr_map_close(&map);
}

static void *guard_on_a_thread(void *ctx)
{
    struct sum_job *job = ctx;
    struct qr_err err;
    intptr_t wrong = 0;

    for (int i = 0; i < 200; i++)
        wrong += qr_map_guard(job->map, sum_bytes, job, &err) != QR_IO;
    return (void *)wrong;
}

static void guards_of_many_threads(void **state)
{
    pthread_t thread[8];
    struct sum_job job[8];
    struct qr_map map;

    cut_file(state, &map);
    assert_int_equal(truncate(map.path, 4096), 0);
    for (int i = 0; i < 8; i++) {
        job[i] = (struct sum_job){.map = &map};
        assert_int_equal(pthread_create(&thread[i], NULL, guard_on_a_thread, &job[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        void *wrong;

        pthread_join(thread[i], &wrong);
        assert_null(wrong);
    }
    qr_map_close(&map);
}

/* Outside a guard SIGBUS ends the process as ever. */
static void without_a_guard_the_signal_is_passed_on(void **state)
{
    struct qr_map map;
    struct sum_job job = {.map = &map};
    int status;
    pid_t child;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* the sanitizer's own handler would report it */
#endif
    cut_file(state, &map);
    assert_int_equal(truncate(map.path, 4096), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGBUS, SIG_DFL); /* cmocka has a handler of its own */
        qr_map_guard(&map, fail_inside, NULL, NULL);
        sum_bytes(&job, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    qr_map_close(&map);
}

static void own_handler(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    _exit(info->si_addr ? 7 : 8);
}

/* ... and a handler that the program has of its own is called. */
static void a_handler_of_the_program_is_called(void **state)
{
    struct sigaction action = {.sa_sigaction = own_handler, .sa_flags = SA_SIGINFO};
    struct qr_map map;
    struct sum_job job = {.map = &map};
    int status;
    pid_t child;

#ifdef __SANITIZE_THREAD__
    skip(); /* its runtime calls handlers late */
#endif
    cut_file(state, &map);
    assert_int_equal(truncate(map.path, 4096), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sigaction(SIGBUS, &action, NULL);
        if (qr_map_guard(&map, sum_bytes, &job, NULL) != QR_IO)
            _exit(1);
        sum_bytes(&job, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    qr_map_close(&map);
}

static int n_entries(void *const *state)
{
    DIR *dir = opendir(*state);
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

static void writes_replace_the_file_at_once(void **state)
{
    const char *path = tmp_path(state, "out");
    struct qr_err err;
    struct qr_map old;
    size_t n;
    char *data;

    assert_int_equal(qr_write_file(path, "first", 5, &err), QR_OK);
    assert_int_equal(qr_map_open(path, &old, &err), QR_OK);
    assert_int_equal(qr_write_file(path, "the second", 10, &err), QR_OK);
    assert_memory_equal(old.data, "first", 5); /* who has the old file keeps it whole */
    qr_map_close(&old);
    assert_int_equal(qr_read_file(path, 100, &data, &n, &err), QR_OK);
    assert_string_equal(data, "the second");
    free(data);
    assert_int_equal(qr_write_file(path, NULL, 0, &err), QR_OK);
    assert_int_equal(n_entries(state), 1); /* no temporary file is left */
    assert_int_equal(qr_write_file(tmp_path(state, "no/such/dir"), "x", 1, &err), QR_NOTFOUND);
    assert_int_equal(mkdir(tmp_path(state, "dir"), 0700), 0);
    assert_int_equal(qr_write_file(tmp_path(state, "dir"), "x", 1, &err), QR_IO);
    assert_int_equal(n_entries(state), 2);
}

static void a_link_in_place_of_the_temporary_file_is_not_followed(void **state)
{
    const char *victim = tmp_write(state, "victim", "mine", 4);
    const char *path = tmp_path(state, "out");
    char temporary[4200], *data;
    size_t n;

    snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)getpid());
    assert_int_equal(symlink(victim, temporary), 0);
    assert_int_equal(qr_write_file(path, "new", 3, NULL), QR_OK);
    assert_int_equal(qr_read_file(victim, 100, &data, &n, NULL), QR_OK);
    assert_string_equal(data, "mine");
    free(data);
}

struct torture {
    void *const *state;
    int n_fd;
};

static int n_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += dup2(fd, fd) >= 0;
    return n;
}

static bool write_read_map(void *ctx)
{
    const struct torture *torture = ctx;
    const char *path = tmp_path(torture->state, "torture");
    struct qr_err err = {0};
    struct qr_map map = {0};
    char *data = NULL;
    size_t n;
    bool ok = qr_write_file(path, "text", 4, &err) == QR_OK && qr_map_open(path, &map, &err) == QR_OK &&
              qr_read_file(path, 100, &data, &n, &err) == QR_OK;

    qr_map_close(&map);
    free(data);
    assert_int_equal(ok, err.message[0] == 0);
    assert_int_equal(n_descriptors(), torture->n_fd);
    return ok;
}

static void survives_every_failed_call(void **state)
{
    struct torture torture = {.state = state, .n_fd = n_descriptors()};

    if (!fault_works())
        skip();
    /* open, write, fsync, rename; open, mmap, strdup; open, malloc, read, read; and the text of the path */
    assert_true(fault_torture(write_read_map, &torture, FAULT_ANY, 0) >= 11);
    assert_true(n_entries(state) <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(maps_what_the_file_holds, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_regular_file, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(reads_whole_files_up_to_the_cap, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(a_file_cut_while_mapped_is_an_error, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(guards_of_many_threads, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(without_a_guard_the_signal_is_passed_on, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(a_handler_of_the_program_is_called, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(writes_replace_the_file_at_once, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(a_link_in_place_of_the_temporary_file_is_not_followed, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(survives_every_failed_call, tmp_setup, tmp_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

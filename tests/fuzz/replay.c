/*
 * Runs a fuzz target over files and directories that are given, without libFuzzer: what fuzzing has found once stays
 * found, with every compiler and sanitizer. Prints TAP, a line for each file.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"

#include "lib/machine.h"

static unsigned replayed;

static void replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat about;
    if (!file || fstat(fileno(file), &about) != 0) {
        printf("Bail out! cannot read %s\n", path);
        exit(1);
    }
    uint8_t *data = malloc((size_t)about.st_size + 1);
    size_t size = data ? fread(data, 1, (size_t)about.st_size, file) : 0;
    fclose(file);
    printf("# %s\n", path); /* so that a crash says at which */
    fflush(stdout);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    printf("ok %u - %s\n", ++replayed, path);
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static void replay(const char *path) {
    struct dirent **entries;
    int count = scandir(path, &entries, is_visible, alphasort);
    if (count < 0) {
        replay_file(path);
        return;
    }
    for (int i = 0; i < count; i++) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        replay_file(inner);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("1..%u\n", replayed);
    return replayed > 0 ? 0 : 1;
}

// Allocates before main and after it: in constructors, exit handlers, destructors, and in the handlers of
// forks.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *early, *handled;

static void use(void) {
    char *all[500];
    for (int i = 0; i < 500; i++) memset(all[i] = malloc((size_t)i * 90 + 1), i, (size_t)i * 90 + 1);
    for (int i = 0; i < 500; i++) {
        if (all[i][i * 90] != (char)i) abort();
        free(all[i]);
    }
}

static void around_fork(void) {
    free(handled);
    handled = malloc(100);
    use();
}

static void at_exit(void) {
    free(early);
    early = strdup("at exit");
    use();
    puts(early);
    fflush(stdout);
}

__attribute__((constructor(101))) static void first(void) {
    early = strdup("early");
    use();
    // More handlers than the C library has room for without allocating.
    for (int i = 0; i < 100; i++)
        if (atexit(use) != 0 || pthread_atfork(around_fork, around_fork, around_fork) != 0) abort();
    atexit(at_exit);
}

__attribute__((destructor(101))) static void last(void) {
    use();
    free(early);
    free(handled);
}

static void *ends_the_process(void *unused) {
    free(malloc(10));
    exit(7);
    return unused;
}

int main(void) {
    alarm(100);
    puts(early);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        use();
        exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0) return 2;
    pthread_t thread;
    pthread_create(&thread, NULL, ends_the_process, NULL);
    pthread_join(thread, NULL);
    return 3;
}

// The guest's end of machine.py: runs commands for the host. Each connection is one command.
//
//   agent ROOT CTL
//
// The host sends a line "TOKEN ID LENGTH" and LENGTH bytes of shell text. The answer is a line with the
// process id, then the connection is the command's standard input and output. Standard error goes to the file
// CTL/ID.err; when the command has ended its status is in CTL/ID.status, a negative one names the signal that
// killed it. CTL/token holds what a caller must know. The command runs in a session of its own, with ROOT as
// its root and ROOT/share as its folder. CTL/ready appears when the agent listens, and holds the guest's
// seconds since power-on.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { port = 7000, text_max = 1 << 20 };
static const char *root, *ctl;
static char token[80];

static void die(const char* what) {
    fprintf(stderr, "agent: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int in_ctl(const char* name, const char* suffix, int flags) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s%s", ctl, name, suffix);
    const int file = open(path, flags | O_CLOEXEC, 0600);
    if (file < 0) die(path);
    return file;
}

static void tell(const char* name, const char* suffix, const char* text) {
    const int file = in_ctl(name, suffix, O_WRONLY | O_CREAT | O_TRUNC);
    if (write(file, text, strlen(text)) < 0) die(name);
    close(file);
}

static void read_exactly(int connection, char* to, size_t size) {
    while (size > 0) {
        const ssize_t got = read(connection, to, size);
        if (got <= 0) exit(1);  // the host has gone
        to += got;
        size -= (size_t)got;
    }
}

static void run_command(int connection, const char* id, const char* text) {
    const int errors = in_ctl(id, ".err", O_WRONLY | O_CREAT | O_APPEND);
    dup2(connection, 0);
    dup2(connection, 1);
    dup2(errors, 2);
    if (chroot(root) != 0 || chdir("/share") != 0) die(root);
    setsid();
    signal(SIGPIPE, SIG_DFL);
    clearenv();
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    setenv("HOME", "/tmp", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    execl("/bin/sh", "sh", "-c", text, (char*)NULL);
    die("/bin/sh");
}

static void serve(int connection) {
    char line[160] = "", given[80], id[40];
    size_t length = 0;
    for (size_t at = 0; at < sizeof line - 1 && (at == 0 || line[at - 1] != '\n'); ++at)
        read_exactly(connection, line + at, 1);
    if (sscanf(line, "%79s %39s %zu", given, id, &length) != 3 || strcmp(given, token) != 0 ||
        length > text_max)
        exit(1);
    char* text = calloc(1, length + 1);
    if (text == NULL) die("memory");
    read_exactly(connection, text, length);

    // The command itself starts when its process id is told, so that nothing of its output comes before.
    int start[2];
    if (pipe2(start, O_CLOEXEC) != 0) die("pipe");
    const pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
        char go;
        close(start[1]);
        if (read(start[0], &go, 1) != 1) exit(1);
        run_command(connection, id, text);
    }
    char answer[40];
    snprintf(answer, sizeof answer, "%d\n", (int)child);
    if (write(connection, answer, strlen(answer)) < 0 || write(start[1], "g", 1) != 1) exit(1);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    snprintf(answer, sizeof answer, "%d\n", WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
    tell(id, ".status", answer);
    shutdown(connection, SHUT_WR);  // also when a process that the command left behind holds it open
    exit(0);
}

int main(int count, char** arguments) {
    if (count != 3) return 2;
    root = arguments[1];
    ctl = arguments[2];
    signal(SIGPIPE, SIG_IGN);
    const int secret = in_ctl("token", "", O_RDONLY);
    const ssize_t size = read(secret, token, sizeof token - 1);
    if (size <= 0) die("token");
    close(secret);

    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (bind(listener, (struct sockaddr*)&here, sizeof here) != 0 || listen(listener, 64) != 0) die("listen");

    char uptime[40] = "";
    const int clock = open("/proc/uptime", O_RDONLY | O_CLOEXEC);
    if (clock < 0 || read(clock, uptime, sizeof uptime - 1) <= 0) die("/proc/uptime");
    close(clock);
    tell("ready", "", uptime);

    signal(SIGCHLD, SIG_IGN);  // as process 1: the kernel buries what commands leave behind
    for (;;) {
        const int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0) continue;
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        const pid_t child = fork();
        if (child == 0) {
            close(listener);
            signal(SIGCHLD, SIG_DFL);
            serve(connection);
        }
        close(connection);
    }
}

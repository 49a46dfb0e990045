// A guest's agent that attacks its controller: built with `cc -static`, and followed by the real agent's bytes and a
// trailer (benches/survive/guests.py). In any other place than a container or a machine it is the real agent. There it
// stands between the real agent and the channel, and does what the job Super Pi is asked for: digits less 24 000 are
// the number of an attack. In a machine the real agent is PID 1 as ever, and takes a pseudoterminal for its channel.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define BASE 24000
#define MARK "VIRTOLL-HOSTILE"
#define LARGE (8 << 20)
#define BESIDE_SECONDS 600

struct trailer { char magic[8]; uint64_t shim_bytes; };

enum attack {
    NONE, LIE, EVENTS, CONSOLE, ENDLESS_LINE, BAD_UTF8, NULS, BOMB, HUGE_NUMBER, NOT_A_NUMBER, WRONG_IDS, TWICE,
    HALF_CLOSED, FORGED_MARKS, LATE, ESCAPES, WRONG_TYPE, LARGE_ANSWER, SURROGATES, STORM, DEATH, FORGE,
};

static void say(const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(1, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            exit(1);
        bytes += written;
        count -= written;
    }
}

static void say_text(const char *text) { say(text, strlen(text)); }

static char *room(size_t bytes)
{
    char *found = malloc(bytes);
    if (!found)
        exit(1);
    return found;
}

// The same bytes again and again, up to 10 GB.
static void flood(const char *line)
{
    size_t bytes = strlen(line), times = 65536 / bytes + 1;
    char *block = room(bytes * times);
    for (size_t at = 0; at < times; at++)
        memcpy(block + at * bytes, line, bytes);
    for (uint64_t sent = 0; sent < 10000000000ull; sent += bytes * times)
        say(block, bytes * times);
    exit(1);
}

// Whether the time of a child that goes on beside the agent is over.
static int is_over(time_t seconds)
{
    static time_t begun;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!begun)
        begun = now.tv_sec;
    return now.tv_sec - begun >= seconds;
}

// Sends a frame out of every interface but one; how many took it.
static int send_out(int channel, const struct if_nameindex *all, const uint8_t *frame, size_t bytes, unsigned without)
{
    int sent = 0;
    for (const struct if_nameindex *one = all; one && one->if_index; one++) {
        struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_ifindex = one->if_index };
        if (one->if_index != without && sendto(channel, frame, bytes, 0, (struct sockaddr *)&to, sizeof to) >= 0)
            sent++;
    }
    return sent;
}

// Every kind of frame that a guest should not send, a hundred times a second out of every interface.
static void storm(void)
{
    static const uint8_t kinds[][14] = {
        { 255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 99, 0x08, 0x06 },  // ARP
        { 255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 99, 0x08, 0x00 },  // broadcast, as DHCP is
        { 1, 128, 194, 0, 0, 0, 2, 0, 0, 0, 0, 99, 0, 100 },              // BPDU
        { 1, 128, 194, 0, 0, 1, 2, 0, 0, 0, 0, 99, 0x88, 0x08 },          // pause
        { 0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 99, 0x86, 0xdd },        // IPv6 to all nodes, as RA is
        { 1, 0, 94, 0, 0, 251, 2, 0, 0, 0, 0, 99, 0x08, 0x00 },           // multicast
        { 1, 128, 194, 0, 0, 14, 2, 0, 0, 0, 0, 99, 0x88, 0xcc },         // LLDP
        { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00 },               // a neighbour's address as its own
    };
    int channel = socket(AF_PACKET, SOCK_RAW, 0);
    while (channel >= 0 && !is_over(BESIDE_SECONDS)) {
        struct if_nameindex *all = if_nameindex();
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
            uint8_t frame[256] = { 0 };
            memcpy(frame, kinds[kind], 14);
            memcpy(frame + 64, MARK, sizeof MARK);
            send_out(channel, all, frame, sizeof frame, 0);
        }
        if_freenameindex(all);
        usleep(10000);
    }
}

// For each test frame that comes, one with a number that was never sent.
static void forge(void)
{
    int channel = socket(AF_PACKET, SOCK_RAW, htons(3));
    struct timeval look = { .tv_usec = 100000 };
    setsockopt(channel, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
    while (channel >= 0 && !is_over(BESIDE_SECONDS)) {
        uint8_t frame[2048];
        struct sockaddr_ll from;
        socklen_t room = sizeof from;
        ssize_t bytes = recvfrom(channel, frame, sizeof frame, 0, (struct sockaddr *)&from, &room);
        if (bytes < 60 || from.sll_pkttype == PACKET_OUTGOING || frame[12] != 8 || frame[13] || frame[23] != 17
            || (frame[44] & 0xe0) != 0xa0)
            continue;
        memset(frame, 255, 6);
        frame[50] ^= 0x80; // sequence: 2^31 more
        struct if_nameindex *all = if_nameindex();
        send_out(channel, all, frame, bytes, from.sll_ifindex);
        if_freenameindex(all);
    }
}

// Goes on while the agent answers.
static void beside(void (*work)(void))
{
    if (fork() == 0) {
        close(0);
        close(1);
        work();
        _exit(0);
    }
}

static void nested(unsigned long id)
{
    size_t depth = 100000, bytes = 0;
    char *line = room(2 * depth + 100);
    bytes += sprintf(line, "{\"id\":%lu,\"ok\":{\"x\":", id);
    memset(line + bytes, '[', depth);
    memset(line + bytes + depth, ']', depth);
    memcpy(line + bytes + 2 * depth, "}}\n", 3);
    say(line, bytes + 2 * depth + 3);
    // One that Python reads, and that it could not print.
    depth = 900;
    memset(line + bytes, '[', depth);
    memset(line + bytes + depth, ']', depth);
    memcpy(line + bytes + 2 * depth, "}}\n", 3);
    say(line, bytes + 2 * depth + 3);
    free(line);
}

static void long_number(unsigned long id)
{
    char digits[4000];
    memset(digits, '9', sizeof digits);
    dprintf(1, "{\"id\":%lu,\"ok\":{\"check\":\"x\",\"result\":{},\"guest\":{\"end_monotonic_ns\":%.*s,"
               "\"start_monotonic_ns\":0,\"start_realtime_ns\":0,\"end_realtime_ns\":1,\"pause_ns\":0,"
               "\"system_cpu_ns\":0,\"user_cpu_ns\":0}}}\n", id, (int)sizeof digits, digits);
}

static void large_answer(unsigned long id)
{
    char *line = room(LARGE);
    size_t bytes = sprintf(line, "{\"id\":%lu,\"ok\":{\"lie\":\"", id);
    memset(line + bytes, 'x', LARGE - 100 - bytes);
    memcpy(line + LARGE - 100, "\"}}\n", 4);
    say(line, LARGE - 96);
    free(line);
}

// What it does when the job is asked for, before the real agent answers.
static void attack(enum attack kind, unsigned long id)
{
    switch (kind) {
    case EVENTS: flood("{\"event\":\"mark\",\"edge\":\"start\"}\n"); break;
    case CONSOLE: flood("kernel: something that nobody reads, and so on and on\n"); break;
    case ENDLESS_LINE: flood("{\"id\":1,\"ok\":"); break;
    case BAD_UTF8: dprintf(1, "{\"id\":%lu,\"ok\":{\"x\":\"\xff\xfe\xc0\x80\"}}\n", id); break;
    case NULS: say("\0\0{\0\0\0\n{\"id\":\0 1}\n", 18); break;
    case BOMB: nested(id); break;
    case HUGE_NUMBER: long_number(id); break;
    case NOT_A_NUMBER: dprintf(1, "{\"id\":%lu,\"ok\":{\"check\":NaN,\"x\":-Infinity}}\n", id); break;
    case WRONG_IDS:
        for (int at = 1; at <= 1000; at++)
            dprintf(1, "{\"id\":%lu,\"ok\":{}}\n{\"id\":\"%lu\",\"ok\":{}}\n{\"id\":null,\"ok\":1}\n", id + at, id);
        break;
    case HALF_CLOSED: close(1); for (;;) pause();
    case FORGED_MARKS:
        for (int at = 0; at < 10; at++)
            say_text("{\"event\":\"mark\",\"edge\":\"start\"}\n{\"event\":\"mark\",\"edge\":\"end\"}\n"
                     "{\"event\":\"mark\"}\n{\"event\":\"taken\",\"bytes\":\"x\"}\n{\"event\":\"ready\"}\n");
        break;
    case LATE: sleep(2); break;
    case ESCAPES:
        dprintf(1, "{\"id\":%lu,\"error\":{\"kind\":\"system\",\"message\":\"\\u001b[2J\\u001b]0;mine\\u0007 line one"
                   "\\nline two \\u202e\"}}\n", id);
        break;
    case WRONG_TYPE: dprintf(1, "{\"id\":%lu,\"ok\":[]}\n", id); break;
    case LARGE_ANSWER: large_answer(id); break;
    case SURROGATES: dprintf(1, "{\"id\":%lu,\"ok\":{\"check\":\"\\ud800\",\"x\":\"\\udfff\"}}\n", id); break;
    case STORM: beside(storm); break;
    case FORGE: beside(forge); break;
    case DEATH: exit(3);
    default: break;
    }
}

// The real answer, with another first digit of its check value.
static void lie(char *line)
{
    char *check = strstr(line, "\"check\":\"");
    if (check)
        check[9] = check[9] == '7' ? '8' : '7';
}

static void stand_between(int to_agent, int from_agent)
{
    static char input[1 << 22], output[1 << 22];
    size_t in = 0, out = 0;
    enum attack kind = NONE;
    unsigned long id = 0;
    for (;;) {
        struct pollfd ends[] = { { 0, POLLIN, 0 }, { from_agent, POLLIN, 0 } };
        if (poll(ends, 2, -1) < 0)
            continue;
        if (ends[0].revents) {
            ssize_t count = read(0, input + in, sizeof input - 1 - in);
            if (count <= 0)
                exit(0);
            in += count;
            input[in] = 0;
            char *end;
            while ((end = memchr(input, '\n', in))) {
                size_t bytes = end + 1 - input;
                char *digits = memmem(input, bytes, "\"digits\":", 9), *number = memmem(input, bytes, "\"id\":", 5);
                kind = digits ? (enum attack)(atoi(digits + 9) - BASE) : NONE;
                id = number ? strtoul(number + 5, NULL, 10) : 0;
                if (digits)
                    attack(kind, id);
                if (write(to_agent, input, bytes) < 0)
                    exit(1);
                memmove(input, input + bytes, in -= bytes);
            }
        }
        if (ends[1].revents) {
            ssize_t count = read(from_agent, output + out, sizeof output - 1 - out);
            if (count <= 0)
                exit(0);
            out += count;
            char *end;
            while ((end = memchr(output, '\n', out))) {
                size_t bytes = end + 1 - output;
                int answer = !memcmp(output, "{\"id\":", 6);
                *end = 0;
                if (kind == LIE && answer)
                    lie(output);
                *end = '\n';
                say(output, bytes);
                if (kind == TWICE && answer)
                    say(output, bytes);
                memmove(output, output + bytes, out -= bytes);
            }
        }
    }
}

static int real_agent(void)
{
    struct trailer trailer;
    struct stat stat;
    int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), real = memfd_create("virtoll-agent", MFD_CLOEXEC);
    if (own < 0 || real < 0 || fstat(own, &stat)
        || pread(own, &trailer, sizeof trailer, stat.st_size - sizeof trailer) != sizeof trailer)
        return -1;
    off_t at = trailer.shim_bytes, end = stat.st_size - sizeof trailer;
    static char block[1 << 16];
    while (at < end) {
        size_t most = end - at < (off_t)sizeof block ? (size_t)(end - at) : sizeof block;
        ssize_t count = pread(own, block, most, at);
        if (count <= 0 || write(real, block, count) != count)
            return -1;
        at += count;
    }
    close(own);
    return real;
}

// Bytes pass as they are.
static void set_raw(int terminal)
{
    struct termios own;
    if (tcgetattr(terminal, &own) == 0) {
        cfmakeraw(&own);
        tcsetattr(terminal, TCSANOW, &own);
    }
}

// The machine's port of our name, or its device of this name; -1 as long as it is not there, or nobody is at its end.
static int machine_channel(const char *name)
{
    char path[300], found[64];
    snprintf(path, sizeof path, "%s", name);
    if (!strcmp(name, "virtio-serial")) {
        DIR *ports = opendir("/sys/class/virtio-ports");
        path[0] = 0;
        for (struct dirent *port; ports && (port = readdir(ports));) {
            snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", port->d_name);
            FILE *file = fopen(path, "r");
            int is_ours = file && fgets(found, sizeof found, file) && !strcmp(found, "virtoll\n");
            if (file)
                fclose(file);
            snprintf(path, sizeof path, "/dev/%s", is_ours ? port->d_name : "");
            if (is_ours)
                break;
        }
        if (ports)
            closedir(ports);
    }
    int channel = open(path, O_RDWR | O_NOCTTY);
    struct pollfd end = { channel, POLLOUT, 0 };
    if (channel >= 0 && poll(&end, 1, 0) >= 0 && !(end.revents & POLLHUP))
        return channel;
    if (channel >= 0)
        close(channel);
    return -1;
}

// What is mounted already the real agent leaves as it is.
static void mount_file_systems(void)
{
    static const char *const all[][3] = {
        { "proc", "/proc", "" }, { "sysfs", "/sys", "" }, { "devtmpfs", "/dev", "" },
        { "devpts", "/dev/pts", "ptmxmode=0666" },
    };
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        mkdir(all[at][1], 0755);
        mount(all[at][0], all[at][1], all[at][0], 0, all[at][2]);
    }
}

// In a machine: what the real agent, PID 1, takes for its channel is ours.
static int in_machine(int real, char **argv, char **environment)
{
    static char line[8192], name[256] = "virtio-serial";
    int number, locked = 0, master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    int told = open("/proc/cmdline", O_RDONLY | O_CLOEXEC), changed = open("/cmdline", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) || ioctl(master, TIOCGPTN, &number) || told < 0 || changed < 0
        || read(told, line, sizeof line - 1) < 0)
        return 127;
    char slave[32], *word = strstr(line, "virtoll.channel=");
    snprintf(slave, sizeof slave, "/dev/pts/%d", number);
    if (word)
        sscanf(word, "virtoll.channel=%255s", name);
    dprintf(changed, "virtoll.channel=%s %s", slave, line);
    if (mount("/cmdline", "/proc/cmdline", NULL, MS_BIND, NULL))
        return 127;
    // Kept open, so that the agent may come later.
    int own = open(slave, O_RDWR | O_NOCTTY | O_CLOEXEC), channel = -1;
    set_raw(own);
    if (fork())
        return fexecve(real, argv, environment);
    close(real);
    while ((channel = machine_channel(name)) < 0)
        usleep(2000);
    set_raw(channel);
    dup2(channel, 0);
    dup2(channel, 1);
    close(channel);
    stand_between(master, master);
    return 0;
}

int main(int argc, char **argv, char **environment)
{
    char host[65] = "";
    int is_machine = getpid() == 1 && argc == 1;
    if (is_machine)
        mount_file_systems();
    int real = real_agent(), in[2], out[2];
    gethostname(host, sizeof host - 1);
    if (real < 0)
        return 127;
    if (is_machine)
        return in_machine(real, argv, environment);
    if (strcmp(host, "guest") || argc < 2 || strcmp(argv[1], "--role") || getpid() > 2)
        return fexecve(real, argv, environment);
    if (pipe(in) || pipe(out))
        return 127;
    signal(SIGPIPE, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        for (int end = 0; end < 2; end++) {
            close(in[end]);
            close(out[end]);
        }
        signal(SIGPIPE, SIG_DFL);
        fexecve(real, argv, environment);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    stand_between(in[1], out[0]);
    return 0;
}

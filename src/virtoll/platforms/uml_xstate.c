/*
 * Loaded into User-mode Linux before 6.13 (LD_PRELOAD), on a host whose processor has more vector state than it knows.
 *
 * UML keeps the registers of its guest's processes in 2696 bytes (AVX-512 and PKRU) and gives them back to the host by
 * PTRACE_SETREGSET. The host takes its own full size only: 11008 bytes with AMX, else EFAULT, and the guest's first
 * process dies. Here what UML gives is filled up with zeros. Nothing is lost: the components beyond those UML knows are
 * in their initial state in every process that has not asked its kernel for AMX, which UML does not offer.
 * UML 6.13 and newer finds the size out by itself ("um: switch to regset API and depend on XSTATE").
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LARGEST_STATE = 65536, HEADER = 512, KNOWN_COMPONENTS = 0x3ff }; /* x87 to PKRU */

static size_t host_size;
static char state[LARGEST_STATE] __attribute__((aligned(64)));

static long direct(long request, pid_t pid, void *address, void *data)
{
    return syscall(SYS_ptrace, request, pid, address, data);
}

long ptrace(enum __ptrace_request request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    pid_t pid = va_arg(arguments, pid_t);
    void *address = va_arg(arguments, void *);
    void *data = va_arg(arguments, void *);
    va_end(arguments);

    if (request != PTRACE_SETREGSET || (long)address != NT_X86_XSTATE) {
        /* As the C library has it: a PEEK's word comes back as the result. */
        long word, result;
        if (request > 0 && request < 4) {
            result = direct(request, pid, address, &word);
            if (result == 0) {
                errno = 0;
                return word;
            }
            return result;
        }
        return direct(request, pid, address, data);
    }
    const struct iovec *given = data;
    if (host_size == 0) {
        struct iovec all = {.iov_base = state, .iov_len = sizeof(state)};
        if (direct(PTRACE_GETREGSET, pid, address, &all) != 0)
            return -1;
        host_size = all.iov_len;
    }
    if (given->iov_len >= host_size)
        return direct(request, pid, address, data);
    memcpy(state, given->iov_base, given->iov_len);
    memset(state + given->iov_len, 0, host_size - given->iov_len);
    unsigned long long components;
    memcpy(&components, state + HEADER, sizeof(components));
    components &= KNOWN_COMPONENTS;
    memcpy(state + HEADER, &components, sizeof(components));
    struct iovec filled = {.iov_base = state, .iov_len = host_size};
    return direct(request, pid, address, &filled);
}

/* Linked into an agent that a sanitizer watches: where its reports go. That is the harness's folder where the process
 * sees it, else standard error, as in a guest with a root of its own. An environment does not reach every guest. */
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

static const char *options(void)
{
	return access(REPORTS, W_OK) == 0 ? "exitcode=66:log_path=" REPORTS "/report" : "exitcode=66";
}

const char *__asan_default_options(void) { return options(); }
const char *__lsan_default_options(void) { return options(); }
const char *__tsan_default_options(void) { return options(); }

/* 2026-11-27: LeakSanitizer looks from a fork, by ptrace, and calls it an error where it can do neither. A process whose
 * children would be in another PID namespace cannot fork once that has ended (ENOMEM): `enter --unshare pid`, when its
 * program ends. A container's filter may refuse ptrace: of a process that is not traced it would say ESRCH. */
int __lsan_is_turned_off(void)
{
	char own[64] = "", children[64] = "";
	ssize_t one = readlink("/proc/self/ns/pid", own, sizeof own - 1);
	ssize_t other = readlink("/proc/self/ns/pid_for_children", children, sizeof children - 1);

	if (one <= 0 || other <= 0 || strcmp(own, children) != 0)
		return 1;
	return ptrace(PTRACE_PEEKDATA, getpid(), 0, 0) == -1 && errno != ESRCH;
}

/* Linked into an agent that a sanitizer watches: where its reports go. That is the harness's folder where the process
 * sees it, else standard error, as in a guest with a root of its own. An environment does not reach every guest. */
#include <unistd.h>

static const char *options(void)
{
	return access(REPORTS, W_OK) == 0 ? "exitcode=66:log_path=" REPORTS "/report" : "exitcode=66";
}

const char *__asan_default_options(void) { return options(); }
const char *__lsan_default_options(void) { return options(); }
const char *__tsan_default_options(void) { return options(); }

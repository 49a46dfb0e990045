//! `clock-rate PARTS`: this kernel's clocks run so many millionths faster (slower: negative), as `virtoll selftest` wants a
//! machine's. It is for a guest with a kernel of its own: a namespace's would be the host's clock.

use crate::command_line::Failure;
use crate::sys;

/// The word that names the command.
pub const CLOCK_RATE: &str = "clock-rate";
/// What the kernel takes: a tick may be a tenth longer or shorter.
const MOST_PARTS: i64 = 100_000;

/// Sets the rate.
///
/// # Errors
/// A sentence for the user.
pub fn run(words: &[String]) -> Result<(), Failure> {
    let [text] = words else {
        return Err(Failure::Usage("usage: clock-rate PARTS_PER_MILLION".to_owned()));
    };
    let parts = text.parse().ok().filter(|parts: &i64| parts.abs() <= MOST_PARTS);
    let parts = parts.ok_or_else(|| {
        Failure::Usage(format!("{text}: give a whole number from -{MOST_PARTS} to {MOST_PARTS}"))
    })?;
    sys::set_clock_rate(parts)
        .map_err(|cause| Failure::Work(format!("set the clock's rate: {cause}")))
}

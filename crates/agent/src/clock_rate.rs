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
    let parts = parts(words)?;
    sys::set_clock_rate(parts)
        .map_err(|cause| Failure::Work(format!("set the clock's rate: {cause}")))
}

fn parts(words: &[String]) -> Result<i64, Failure> {
    let [text] = words else {
        return Err(Failure::Usage("usage: clock-rate PARTS_PER_MILLION".to_owned()));
    };
    let allowed = -MOST_PARTS..=MOST_PARTS;
    text.parse().ok().filter(|parts| allowed.contains(parts)).ok_or_else(|| {
        Failure::Usage(format!("{text}: give a whole number from -{MOST_PARTS} to {MOST_PARTS}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only what is read: no test sets a clock of this machine.
    #[test]
    fn a_tick_may_be_a_tenth_longer_or_shorter_and_no_more() {
        let parts = |text: &str| parts(&[text.to_owned()]).ok();
        for number in [-100_000, -1, 0, 250, 100_000] {
            assert_eq!(parts(&number.to_string()), Some(number));
        }
        // The smallest of all numbers has no positive one beside it.
        for text in ["-100001", "100001", "-9223372036854775808", "0.5", "fast", ""] {
            assert_eq!(parts(text), None, "{text}");
        }
        assert!(super::parts(&[]).is_err());
    }
}

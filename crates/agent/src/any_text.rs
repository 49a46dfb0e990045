//! Texts for property tests of what reads the kernel's files and command lines: their own words among any others.

use proptest::prelude::*;

/// Lines of these words, of numbers, and of anything.
pub fn any_text(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => prop::sample::select(words).prop_map(str::to_owned),
        2 => "[0-9]{1,9}",
        1 => "[0-9a-f]{1,10}",
        1 => prop::collection::vec(any::<char>(), 0..=8).prop_map(String::from_iter),
    ];
    let separator = prop_oneof![6 => Just(" "), 2 => Just("\n"), 1 => Just(""), 1 => Just("\t")];
    let most = if cfg!(miri) { 8 } else { 40 };
    prop::collection::vec((word, separator), 0..most).prop_map(|parts| {
        parts.into_iter().flat_map(|(word, end)| [word, end.to_owned()]).collect()
    })
}

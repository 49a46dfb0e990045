//! See `checks/reply_line.rs`.
#![no_main]

#[path = "../checks/reply_line.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| check::holds(input));

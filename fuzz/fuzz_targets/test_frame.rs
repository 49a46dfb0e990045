//! See `checks/test_frame.rs`.
#![no_main]

#[path = "../checks/test_frame.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| check::holds(input));

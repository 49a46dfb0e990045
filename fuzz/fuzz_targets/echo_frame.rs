//! See `checks/echo_frame.rs`.
#![no_main]

#[path = "../checks/echo_frame.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| check::holds(input));

//! See `checks/http_reply.rs`.
#![no_main]

#[path = "../checks/http_reply.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| check::holds(input));

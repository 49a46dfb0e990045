//! See `checks/books.rs`.
#![no_main]

#[path = "../checks/books.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| check::holds(input));

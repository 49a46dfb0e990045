//! Any bytes as the kernel's answers by netlink, and as the body of one: nothing panics, and one is one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use virtoll_wire::netlink::read_answers;

const HEADER_BYTES: usize = 16;

fuzz_target!(|input: &[u8]| {
    read_answers(input);
    let mut message = vec![0; HEADER_BYTES];
    message[..4].copy_from_slice(&((HEADER_BYTES + input.len()) as u32).to_ne_bytes());
    message.extend_from_slice(input);
    assert_eq!(read_answers(&message), 1);
});

//! A stream of any bytes in any portions: lines come out, each is a request or a refusal, nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use virtoll_proto::{LineBuffer, Request};

fuzz_target!(|input: &[u8]| {
    let Some((portion, stream)) = input.split_first() else { return };
    let mut buffer = LineBuffer::with_limit(512);
    let mut lines = 0;
    for part in stream.chunks(usize::from(*portion).max(1)) {
        buffer.push(part);
    }
    while let Some(line) = buffer.next_line() {
        lines += 1;
        if let Ok(line) = line {
            assert!(line.len() <= 512);
            if let Ok(request) = Request::parse(&line) {
                assert!(request.id >= 1);
            }
        }
    }
    assert_eq!(lines, stream.iter().filter(|byte| **byte == b'\n').count());
});

//! A stream of any bytes in any portions: the lines that a plain split gives come out, each is a request or a refusal,
//! a request is written and reads the same, nothing panics.

use virtoll_proto::reply::to_line;
use virtoll_proto::{LineBuffer, LineTooLong, Operation, Request};

const LIMIT_BYTES: usize = 512;

/// A request's line, as the controller writes it.
#[derive(serde::Serialize)]
struct Line<'a> {
    id: u64,
    #[serde(flatten)]
    operation: &'a Operation,
}

fn check(line: &[u8]) {
    let Ok(request) = Request::parse(line) else { return };
    assert!(request.id >= 1);
    let written = to_line(&Line { id: request.id, operation: &request.operation });
    assert_eq!(Request::parse(&written), Ok(request));
}

/// Panics where it does not hold for this input.
pub fn holds(input: &[u8]) {
    let Some((portion, stream)) = input.split_first() else { return };
    let mut buffer = LineBuffer::with_limit(LIMIT_BYTES);
    for part in stream.chunks(usize::from(*portion).max(1)) {
        buffer.push(part);
    }
    let mut parts: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    let rest = parts.pop().unwrap_or_default();
    assert_eq!(buffer.is_partial(), !rest.is_empty());
    for part in parts {
        let line = buffer.next_line().expect("a line for each end of one");
        if part.len() > LIMIT_BYTES {
            assert_eq!(line, Err(LineTooLong { limit_bytes: LIMIT_BYTES }));
            continue;
        }
        let line = line.expect("a line within the limit");
        assert_eq!(line, part.strip_suffix(b"\r").unwrap_or(part));
        check(&line);
    }
    assert_eq!(buffer.next_line(), None);
    check(stream);
}

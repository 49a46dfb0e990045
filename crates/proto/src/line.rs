//! Line framing: bytes in any portions become lines of a bounded length.

use std::collections::VecDeque;
use std::fmt;

/// The longest line, its end not counted, in bytes.
pub const MAXIMUM_LINE_BYTES: usize = 8 << 20;

/// A line was longer than allowed; it was skipped to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong {
    /// The limit in bytes.
    pub limit_bytes: usize,
}

impl fmt::Display for LineTooLong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a line is longer than {} bytes", self.limit_bytes)
    }
}

/// Collects bytes and hands out whole lines without their end (`\n`, or `\r\n` as a terminal sends it).
#[derive(Debug)]
pub struct LineBuffer {
    limit_bytes: usize,
    partial: Vec<u8>,
    skipping: bool,
    lines: VecDeque<Result<Vec<u8>, LineTooLong>>,
}

impl Default for LineBuffer {
    fn default() -> Self {
        Self::with_limit(MAXIMUM_LINE_BYTES)
    }
}

impl LineBuffer {
    /// A buffer for lines of at most `limit_bytes`.
    pub fn with_limit(limit_bytes: usize) -> Self {
        Self { limit_bytes, partial: Vec::new(), skipping: false, lines: VecDeque::new() }
    }

    /// Takes the next portion of the stream.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.extend(&bytes[..end]);
            self.finish();
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
    }

    /// The next whole line, if there is one.
    pub fn next_line(&mut self) -> Option<Result<Vec<u8>, LineTooLong>> {
        self.lines.pop_front()
    }

    /// Whether a line has begun that has no end yet.
    pub fn is_partial(&self) -> bool {
        self.skipping || !self.partial.is_empty()
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.partial.len() + bytes.len() > self.limit_bytes {
            self.skipping = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn finish(&mut self) {
        if self.skipping {
            self.skipping = false;
            self.lines.push_back(Err(LineTooLong { limit_bytes: self.limit_bytes }));
            return;
        }
        let mut line = std::mem::take(&mut self.partial);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        self.lines.push_back(Ok(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(buffer: &mut LineBuffer) -> Vec<Result<Vec<u8>, LineTooLong>> {
        std::iter::from_fn(|| buffer.next_line()).collect()
    }

    #[test]
    fn a_line_without_its_end_is_partial() {
        let mut buffer = LineBuffer::with_limit(4);
        assert!(!buffer.is_partial());
        buffer.push(b"a\nb");
        assert!(buffer.is_partial());
        buffer.push(b"\n");
        assert!(!buffer.is_partial());
        buffer.push(b"abcdef");
        assert!(buffer.is_partial(), "one that is skipped has an end to come as well");
    }

    #[test]
    fn a_line_may_have_eight_mebibytes() {
        let mut buffer = LineBuffer::default();
        let mut stream = vec![b'a'; 8 * 1024 * 1024];
        stream.extend(b"\n");
        buffer.push(&stream);
        buffer.push(b"b");
        buffer.push(&stream);
        let lines = drain(&mut buffer);
        assert_eq!(lines[0].as_ref().map(Vec::len), Ok(8_388_608));
        assert_eq!(
            lines[1].clone().unwrap_err().to_string(),
            "a line is longer than 8388608 bytes"
        );
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn a_line_of_the_limit_passes_and_a_longer_one_is_skipped_whole() {
        let mut buffer = LineBuffer::with_limit(4);
        buffer.push(b"1234\n12345678\nab\r\n");
        let lines = drain(&mut buffer);
        assert_eq!(lines[0], Ok(b"1234".to_vec()));
        assert_eq!(lines[1], Err(LineTooLong { limit_bytes: 4 }));
        assert_eq!(lines[2], Ok(b"ab".to_vec()));
        assert_eq!(lines.len(), 3);
    }

    proptest! {
        #[test]
        fn the_portions_do_not_matter(
            lines in prop::collection::vec(prop::collection::vec(any::<u8>().prop_filter("no end of line", |byte| *byte != b'\n' && *byte != b'\r'), 0..40), 0..10),
            portion in 1_usize..20,
        ) {
            let mut stream = Vec::new();
            for line in &lines {
                stream.extend_from_slice(line);
                stream.push(b'\n');
            }
            let mut buffer = LineBuffer::with_limit(32);
            for part in stream.chunks(portion) {
                buffer.push(part);
            }
            let expected: Vec<_> = lines.iter().map(|line| {
                if line.len() > 32 { Err(LineTooLong { limit_bytes: 32 }) } else { Ok(line.clone()) }
            }).collect();
            prop_assert_eq!(drain(&mut buffer), expected);
        }
    }
}

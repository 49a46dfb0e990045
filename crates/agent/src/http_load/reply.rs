//! One reply: its head is parsed, its body is counted.

/// More than a server sends.
const HEAD_BYTES: usize = 16 << 10;
const MOST_HEADERS: usize = 64;

/// What has come of a reply.
#[derive(Debug, Default)]
pub struct Reply {
    head: Vec<u8>,
    left_bytes: Option<u64>,
    /// Its status code, once the head is whole.
    pub status: u16,
    /// Its length, once the head is whole.
    pub body_bytes: u64,
    /// Whether the server will close the connection after it.
    pub closes: bool,
}

/// Bytes that are no reply, or one of unknown length.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

impl Reply {
    /// Takes what came; true when the reply is whole.
    ///
    /// # Errors
    /// It is none that can be followed.
    pub fn take(&mut self, portion: &[u8]) -> Result<bool, Malformed> {
        let body_bytes = match self.left_bytes {
            Some(_) => portion.len(),
            None => match self.take_head(portion)? {
                Some(body_bytes) => body_bytes,
                None => return Ok(false),
            },
        };
        let left_bytes = self.left_bytes.unwrap_or_default();
        let left_bytes = left_bytes.checked_sub(body_bytes as u64).ok_or(Malformed)?;
        self.left_bytes = Some(left_bytes);
        Ok(left_bytes == 0)
    }

    /// The bytes of the body that came with the head's end; none as long as it is not whole.
    fn take_head(&mut self, portion: &[u8]) -> Result<Option<usize>, Malformed> {
        self.head.extend_from_slice(portion);
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(length) =
            response.parse(&self.head).map_err(|_| Malformed)?
        else {
            return if self.head.len() < HEAD_BYTES { Ok(None) } else { Err(Malformed) };
        };
        let header = |name: &str| {
            let found = response.headers.iter().find(|one| one.name.eq_ignore_ascii_case(name));
            found.and_then(|one| std::str::from_utf8(one.value).ok())
        };
        self.status = response.code.ok_or(Malformed)?;
        self.body_bytes =
            header("content-length").and_then(|text| text.parse().ok()).ok_or(Malformed)?;
        self.closes = header("connection").is_some_and(|text| text.eq_ignore_ascii_case("close"));
        self.left_bytes = Some(self.body_bytes);
        Ok(Some(self.head.len() - length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

    proptest! {
        #[test]
        fn a_reply_is_whole_however_it_is_cut(cuts in prop::collection::vec(1_usize..30, 0..20)) {
            let mut reply = Reply::default();
            let mut rest = WHOLE;
            for cut in cuts {
                if cut < rest.len() {
                    let (portion, more) = rest.split_at(cut);
                    prop_assert_eq!(reply.take(portion), Ok(false));
                    rest = more;
                }
            }
            prop_assert_eq!(reply.take(rest), Ok(true));
            prop_assert_eq!((reply.status, reply.body_bytes, reply.closes), (200, 5, true));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Reply::default().take(&bytes);
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let taken = |bytes: &[u8]| Reply::default().take(bytes);
        assert_eq!(taken(b"220 mail ready\r\n"), Err(Malformed));
        assert_eq!(taken(b"HTTP/1.1 200 OK\r\n\r\nno length"), Err(Malformed));
        assert_eq!(taken(&[WHOLE, b"!"].concat()), Err(Malformed));
        assert_eq!(
            taken(&[b"HTTP/1.1 200 OK\r\nX: ", &[b'x'; HEAD_BYTES][..]].concat()),
            Err(Malformed)
        );
    }
}

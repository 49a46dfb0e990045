//! Any bytes as a server's reply, whole and in portions: nothing panics, and the portions do not matter.

#[allow(dead_code)]
#[path = "../../crates/agent/src/http_load/reply.rs"]
mod reply;

use reply::{Malformed, Reply};

/// What comes of a reply that is read in such portions: its figures once it is whole, and how much was read by then.
fn read(bytes: &[u8], portion: usize) -> Result<Option<(u16, u64, bool, usize)>, Malformed> {
    let mut reply = Reply::default();
    let mut read_bytes = 0;
    for part in bytes.chunks(portion) {
        read_bytes += part.len();
        if reply.take(part)? {
            return Ok(Some((reply.status, reply.body_bytes, reply.closes, read_bytes)));
        }
    }
    Ok(None)
}

/// Panics where it does not hold for this input.
pub fn holds(input: &[u8]) {
    let Some((portion, bytes)) = input.split_first() else { return };
    let by_bytes = read(bytes, 1);
    let whole = read(bytes, bytes.len().max(1));
    match by_bytes {
        // Bytes behind the end of a reply to the only request are no part of it.
        Ok(Some(found)) if found.3 < bytes.len() => {
            assert_eq!(whole, Err(Malformed));
            assert_eq!(read(&bytes[..found.3], usize::from(*portion).max(1)), Ok(Some(found)));
        }
        outcome => {
            assert_eq!(whole, outcome);
            assert_eq!(read(bytes, usize::from(*portion).max(1)), outcome);
        }
    }
}

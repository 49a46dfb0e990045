//! What the frames of one source look like.

use std::net::Ipv4Addr;
use std::sync::Arc;

use super::{Key, Layout, TestFrameRepr};

/// What the frames of one source look like: frame `n` has the size `n` modulo their number, and so for its flow and its
/// destination.
#[derive(Clone, Debug)]
pub struct FrameShape {
    /// Headers and trial; sequence number, send time and size are ignored.
    pub repr: TestFrameRepr,
    /// The pattern of bytes in the buffer, which is repeated: frame sizes without FCS.
    pub sizes: Vec<usize>,
    /// How many flows. Their source ports count up from that of `repr`.
    pub flows: u16,
    /// Where frames go in turn, of IPv4; none for the address of `repr` alone.
    pub destinations: Arc<[Ipv4Addr]>,
    /// The source's secret in this trial.
    pub key: Key,
}

impl FrameShape {
    /// Frames that differ in sequence number and send time alone, with the key that everybody knows.
    pub fn of_one(repr: TestFrameRepr) -> Self {
        let key = Key::PUBLIC;
        Self { repr, sizes: vec![repr.frame_bytes], flows: 1, destinations: Arc::new([]), key }
    }

    /// Which headers they have.
    pub const fn layout(&self) -> Layout {
        self.repr.layout()
    }

    /// The pattern as frame sizes, with FCS.
    pub fn frame_sizes(&self) -> Vec<usize> {
        self.sizes.iter().copied().map(super::frame_size_of).collect()
    }

    /// Lengths of their IP packets, with repetitions.
    pub fn ip_bytes(&self) -> impl Iterator<Item = usize> {
        self.sizes.iter().map(|size| size - self.layout().ip())
    }
}

//! Has a veth's other end queue what sockets send, as a NIC queues what arrives, while this side sends.
//!
//! A veth queues the frames of an XDP program for the NAPI of its other end. What a socket sends is worked off on the
//! sender's CPU instead, past that queue, as long as the sending end segments TCP (`veth_skb_is_eligible_for_gro` in
//! Linux, drivers/net/veth.c). Without that offload all frames take the same way, whoever sends them.

use crate::facts::{driver, ethtool_word, set_ethtool_word};

const GET_TCP_SEGMENTATION: u32 = 0x1e;
const SET_TCP_SEGMENTATION: u32 = 0x1f;

/// Interfaces without TCP segmentation offload; it is on again when this goes.
pub struct Queued(Vec<String>);

impl Queued {
    /// Switches it off where it is on, on veths alone: another driver's setting changes nothing here, and could outlast a
    /// killed agent. Who may not (a guest without that right) sends as it is.
    pub fn frames_of(interfaces: Vec<String>) -> Self {
        let switched = |name: &String| {
            driver(name).as_deref() == Some("veth")
                && ethtool_word(name, GET_TCP_SEGMENTATION) == Some(1)
                && set_ethtool_word(name, SET_TCP_SEGMENTATION, 0).is_some()
        };
        Self(interfaces.into_iter().filter(switched).collect())
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        for name in &self.0 {
            // An interface that is gone has nothing to be put back.
            let _ = set_ethtool_word(name, SET_TCP_SEGMENTATION, 1);
        }
    }
}

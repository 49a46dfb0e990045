//! Traffic generator and sink.
//!
//! The road of a trial: a [`trial::TrialPlan`] opens a [`backend::Generate`] for the sources of each core and one
//! [`backend::Collect`] for the sink, runs them on threads of their own, and ends with a [`trial::TrialCounts`]
//! whose books balance. Wire formats are a cheap view over bytes beside a plain value ([`frame`], [`icmp`]).
//! The send and receive loops hold no allocation, lock, log line or system call but the one that they are for.
//! `unsafe` lives in `sys.rs` alone.

mod af_packet;
mod af_xdp;
pub mod backend;
pub mod backend_selection;
mod bpf;
mod checksum;
pub mod forwarder;
pub mod frame;
mod gaps;
mod histogram;
pub mod icmp;
mod live_frames;
mod mac;
pub mod netlink;
pub mod one_sided;
mod pacing;
pub mod pcap;
mod priority;
pub mod reordering;
pub mod routes;
mod schedule;
mod senders;
pub mod sequence_accounting;
mod sink;
mod socket;
mod source;
mod sys;
pub mod trial;
mod udp;
mod xdp_sink;

pub use gaps::GapSummary;
pub use histogram::{Distribution, Histogram};
pub use live_frames::written_frames;
pub use mac::MacAddress;
pub use pacing::CATCH_UP_NS;
pub use priority::{SessionPriority, prefer_this_thread};
pub use senders::{Sent, ThreadCost};
pub use socket::{PacketKind, PacketSocket, Received, interface_index, interface_mac};
pub use source::{Bursts, SourceCounts, SourcePlan};

//! Traffic generator and sink.
//!
//! The road of a trial: a [`trial::TrialPlan`] opens a [`backend::Generate`] for the sources of each core and one
//! [`backend::Collect`] for the sink, runs them on threads of their own, and ends with a [`trial::TrialCounts`]
//! whose books balance. Wire formats are a cheap view over bytes beside a plain value ([`frame`], [`icmp`]).
//! The send and receive loops hold no allocation, lock, log line or system call but the one that they are for.
//! `unsafe` lives in `sys.rs` alone.

pub mod af_packet;
pub mod af_xdp;
pub mod alone;
pub mod backend;
pub mod books;
mod bpf;
pub mod checksum;
pub mod choice;
pub mod frame;
pub mod gaps;
pub mod histogram;
pub mod icmp;
pub mod live_frames;
pub mod mac;
pub mod netlink;
pub mod pacing;
pub mod pcap;
pub mod priority;
pub mod reordering;
pub mod routes;
pub mod schedule;
pub mod senders;
pub mod sink;
pub mod socket;
pub mod source;
pub mod trial;
pub mod xdp_sink;

mod sys;

pub use bpf::AttachMode;
pub use mac::MacAddress;
pub use socket::{PacketKind, PacketSocket, interface_index, interface_mac};

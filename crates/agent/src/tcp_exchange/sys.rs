//! What the kernel says of a TCP connection.
#![allow(unsafe_code)]

use std::mem::zeroed;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use serde_json::{Value, json};

/// Retransmitted segments, round trip and segment size as the kernel has them (`TCP_INFO`); null where it does not say.
pub fn tcp_information(stream: &TcpStream) -> Value {
    // SAFETY: all-zero bytes are a valid tcp_info.
    let mut told: libc::tcp_info = unsafe { zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `told` and `length` are valid for writes, and `length` says how large `told` is.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut told).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Value::Null;
    }
    json!({
        "retransmitted_segments": told.tcpi_total_retrans,
        "round_trip_us": told.tcpi_rtt,
        "sent_segment_bytes": told.tcpi_snd_mss,
        "received_segment_bytes": told.tcpi_rcv_mss,
    })
}

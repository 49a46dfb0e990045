//! What the kernel says of a TCP connection.
#![allow(unsafe_code)]

use std::mem::zeroed;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use virtoll_proto::reply::TcpInformation;

/// Retransmitted segments, round trip and segment size as the kernel has them (`TCP_INFO`); none where it does not say.
pub fn tcp_information(stream: &TcpStream) -> Option<TcpInformation> {
    // SAFETY: all-zero bytes are a valid tcp_info.
    let mut information: libc::tcp_info = unsafe { zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `information` and `length` are valid for writes, and `length` says how large `information` is.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut information).cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(TcpInformation {
        retransmitted_segments: information.tcpi_total_retrans,
        round_trip_us: information.tcpi_rtt,
        sent_segment_bytes: information.tcpi_snd_mss,
        received_segment_bytes: information.tcpi_rcv_mss,
    })
}

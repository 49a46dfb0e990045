//! IPv6 of an interface, switched on so that it sends nothing by itself, and its forwarding: by `/proc/sys`.

use std::fs;
use std::io;
use std::path::Path;

use virtoll_proto::Error;

const FOLDER: &str = "/proc/sys/net/ipv6";
/// No link-local address is made up, no router asked for, no address tried out, and reports of multicast membership
/// (which the kernel sends twice for each new address) follow each other at once. The last one switches IPv6 on.
const QUIET: [(&str, &str); 8] = [
    ("addr_gen_mode", "1"),
    ("accept_ra", "0"),
    ("autoconf", "0"),
    ("accept_dad", "0"),
    ("dad_transmits", "0"),
    ("router_solicitations", "0"),
    ("mldv2_unsolicited_report_interval", "10"),
    ("disable_ipv6", "0"),
];

/// Whether this kernel has IPv6 at all.
///
/// # Errors
/// `unsupported` with what to do.
pub fn require() -> Result<(), Error> {
    if Path::new(FOLDER).is_dir() {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "its kernel has no IPv6 (there is no {FOLDER}); use a kernel with IPv6, or ip_version 4"
    )))
}

/// Switches IPv6 on for an interface, quietly. What of it this kernel does not know is left as it is: an address that
/// then cannot be set says so itself.
pub fn switch_on(interface: &str) {
    for (name, value) in QUIET {
        let _ = write(&format!("conf/{interface}/{name}"), value);
    }
}

/// Switches IPv6 off for an interface that has no IPv6 address, so that it sends nothing of its own.
pub fn switch_off(interface: &str) {
    let _ = write(&format!("conf/{interface}/disable_ipv6"), "1");
}

/// Forwarding on or off, for all interfaces.
///
/// # Errors
/// `unsupported` where the kernel does not let it be set.
pub fn set_forwarding(on: bool) -> Result<(), Error> {
    let name = "conf/all/forwarding";
    write(name, if on { "1" } else { "0" }).map_err(|cause| {
        Error::unsupported(format!(
            "IPv6 forwarding cannot be set in it ({FOLDER}/{name}: {cause}); use ip_version 4"
        ))
    })
}

/// Writes a setting unless it is as wanted: where `/proc/sys` is read-only it may be right all the same.
fn write(name: &str, value: &str) -> io::Result<()> {
    let path = Path::new(FOLDER).join(name);
    if fs::read_to_string(&path)?.trim() == value { Ok(()) } else { fs::write(path, value) }
}

//! What the `bpf` system call takes: beginnings of the kernel's `union bpf_attr`.

#[repr(C)]
#[derive(Default)]
pub(super) struct MapAttributes {
    pub(super) kind: u32,
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
    pub(super) entries: u32,
    pub(super) flags: u32,
    pub(super) inner: u32,
    pub(super) node: u32,
    pub(super) name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
pub(super) struct UpdateAttributes {
    pub(super) map: u32,
    pub(super) padding: u32,
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) flags: u64,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct LoadAttributes {
    pub(super) kind: u32,
    pub(super) instruction_count: u32,
    pub(super) instructions: u64,
    pub(super) licence: u64,
    pub(super) log_level: u32,
    pub(super) log_bytes: u32,
    pub(super) log: u64,
    pub(super) kernel_version: u32,
    pub(super) flags: u32,
    pub(super) name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
pub(super) struct RunAttributes {
    pub(super) program: u32,
    pub(super) result: u32,
    pub(super) in_bytes: u32,
    pub(super) out_bytes: u32,
    pub(super) data_in: u64,
    pub(super) data_out: u64,
    pub(super) repeat: u32,
    pub(super) duration: u32,
    pub(super) context_in_bytes: u32,
    pub(super) context_out_bytes: u32,
    pub(super) context_in: u64,
    pub(super) context_out: u64,
    pub(super) flags: u32,
    pub(super) cpu: u32,
    pub(super) batch: u32,
    pub(super) padding: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct LinkAttributes {
    pub(super) program: u32,
    pub(super) interface: u32,
    pub(super) kind: u32,
    pub(super) flags: u32,
}

//! Computes the build id: 12 hex digits of the SHA-256 over the sources of all crates and XDP programs, their manifests
//! and the lock file, in the order of their paths. The same sources give the same id, with or without git.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

fn main() {
    let crates =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/ is above crates/agent");
    let root = crates.parent().expect("the workspace is above crates/");
    let mut files = vec![root.join("Cargo.toml"), root.join("Cargo.lock")];
    let names = ["agent", "clock", "proto", "wire"];
    for name in names {
        let folder = crates.join(name);
        files.push(folder.join("Cargo.toml"));
        for part in ["src", "bpf", "build"] {
            let sources = folder.join(part);
            // Cargo takes a path that is missing for one that has changed, each time.
            if sources.is_dir() {
                collect(&sources, &mut files);
                println!("cargo::rerun-if-changed={}", sources.display());
            }
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        let relative = file.strip_prefix(root).unwrap_or(file);
        let content = fs::read(file).unwrap_or_default();
        hash.update(relative.to_string_lossy().as_bytes());
        hash.update((content.len() as u64).to_be_bytes());
        hash.update(&content);
        println!("cargo::rerun-if-changed={}", file.display());
    }
    let hex = format!("{:x}", hash.finalize());
    println!("cargo::rustc-env=VIRTOLL_BUILD={}", &hex[..12]);
    println!(
        "cargo::rustc-env=VIRTOLL_TARGET={}",
        std::env::var("TARGET").unwrap_or_else(|_| "unknown".to_owned())
    );
}

/// Adds every source in Rust or C below `folder`.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|kind| ["rs", "c", "h"].iter().any(|one| kind == *one))
        {
            files.push(path);
        }
    }
}

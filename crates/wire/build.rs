//! Compiles the XDP programs in `bpf/` with clang and writes them as Rust values, so that the agent carries them.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "build/elf.rs"]
mod elf;

const OBJECTS: [&str; 2] = ["generator", "sink"];

fn main() {
    println!("cargo::rerun-if-env-changed=CLANG");
    for file in ["build.rs", "build/elf.rs", "bpf/common.h", "bpf/reordering.h"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut rust = String::new();
    for name in OBJECTS {
        let source = format!("bpf/{name}.bpf.c");
        println!("cargo::rerun-if-changed={source}");
        let object = out.join(format!("{name}.o"));
        compile(Path::new(&source), &object);
        let bytes = fs::read(&object).expect("clang wrote the object");
        let object = elf::read(&bytes).unwrap_or_else(|sentence| panic!("{source}: {sentence}"));
        write_object(&mut rust, name, &object);
    }
    fs::write(out.join("programs.rs"), rust).expect("OUT_DIR can be written");
}

fn compile(source: &Path, object: &Path) {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let status = Command::new(&clang)
        .args(["-target", "bpfel", "-mcpu=v3", "-O2", "-Wall", "-Wextra", "-Werror", "-c"])
        .arg(source)
        .arg("-o")
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {}: {status}", source.display()),
        Err(cause) => panic!(
            "{clang}, which compiles the XDP programs, does not start ({cause}): apt-get install clang, or set CLANG"
        ),
    }
}

fn write_object(rust: &mut String, name: &str, object: &elf::Object) {
    let constant = name.to_uppercase();
    let data_bytes = object.data_bytes;
    writeln!(rust, "/// `bpf/{name}.bpf.c`.").unwrap();
    writeln!(
        rust,
        "pub(crate) static {constant}: Object = Object {{ data_bytes: {data_bytes}, programs: &["
    )
    .unwrap();
    for program in &object.programs {
        writeln!(
            rust,
            "Program {{ name: {:?}, instructions: &{:?}, relocations: &[",
            program.name, program.instructions
        )
        .unwrap();
        for (at, target) in &program.relocations {
            writeln!(rust, "({at}, Target::{target:?}),").unwrap();
        }
        writeln!(rust, "] }},").unwrap();
    }
    writeln!(rust, "] }};").unwrap();
}

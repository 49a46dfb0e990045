//! Reads a BPF object file as clang writes it: programs, what they refer to, and the size of their data.

use std::fmt;

/// What an instruction refers to.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// A map by name.
    Map(String),
    /// An offset in the zeroed data.
    Data(u32),
}

/// One program: a section `xdp/<name>`.
#[derive(Debug)]
pub struct Program {
    pub name: String,
    pub instructions: Vec<u64>,
    pub relocations: Vec<(usize, Target)>,
}

/// All that is in an object file.
#[derive(Debug)]
pub struct Object {
    pub data_bytes: u64,
    pub programs: Vec<Program>,
}

/// Why an object file cannot be carried.
#[derive(Debug)]
pub enum ElfError {
    Kind,
    NoSymbols,
    /// A symbol, and the section that it lies in.
    Place(String, String),
    Relocation(u32),
    Section(String),
}

impl fmt::Display for ElfError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind => to.write_str("not a little-endian 64-bit ELF file"),
            Self::NoSymbols => to.write_str("no symbols"),
            Self::Place(name, section) => {
                write!(to, "{name:?} lies in section {section:?}, which the loader does not know")
            }
            Self::Relocation(kind) => write!(to, "relocation of kind {kind} is not known"),
            Self::Section(name) => write!(to, "section {name} is not supported: use zeroed data"),
        }
    }
}

const SYMBOLS: u32 = 2;
const RELOCATIONS: u32 = 9;
const LOAD_64_BITS: u32 = 1;

struct Section {
    name: String,
    kind: u32,
    offset: usize,
    size: usize,
    link: usize,
    info: usize,
}

struct File<'a> {
    bytes: &'a [u8],
    sections: Vec<Section>,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(value)
}

fn text(bytes: &[u8], at: usize) -> String {
    bytes[at..].iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect()
}

impl<'a> File<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, ElfError> {
        if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
            return Err(ElfError::Kind);
        }
        let table = number::<8>(bytes, 40) as usize;
        let (count, names) = (number::<2>(bytes, 60) as usize, number::<2>(bytes, 62) as usize);
        let names = number::<8>(bytes, table + names * 64 + 24) as usize;
        let sections = (0..count)
            .map(|index| table + index * 64)
            .map(|at| Section {
                name: text(bytes, names + number::<4>(bytes, at) as usize),
                kind: number::<4>(bytes, at + 4) as u32,
                offset: number::<8>(bytes, at + 24) as usize,
                size: number::<8>(bytes, at + 32) as usize,
                link: number::<4>(bytes, at + 40) as usize,
                info: number::<4>(bytes, at + 44) as usize,
            })
            .collect();
        Ok(Self { bytes, sections })
    }

    fn target(&self, symbol: usize, addend: u32) -> Result<Target, ElfError> {
        let symbols = self.sections.iter().find(|section| section.kind == SYMBOLS);
        let symbols = symbols.ok_or(ElfError::NoSymbols)?;
        let at = symbols.offset + symbol * 24;
        let names = self.sections[symbols.link].offset;
        let name = text(self.bytes, names + number::<4>(self.bytes, at) as usize);
        let section = &self.sections[number::<2>(self.bytes, at + 6) as usize];
        match section.name.as_str() {
            "maps" => Ok(Target::Map(name)),
            ".bss" => Ok(Target::Data(number::<8>(self.bytes, at + 8) as u32 + addend)),
            other => Err(ElfError::Place(name, other.to_owned())),
        }
    }

    fn relocations(&self, section: usize) -> Result<Vec<(usize, Target)>, ElfError> {
        let of_this = |table: &&Section| table.kind == RELOCATIONS && table.info == section;
        let Some(table) = self.sections.iter().find(of_this) else { return Ok(Vec::new()) };
        let code = self.sections[section].offset;
        (table.offset..table.offset + table.size)
            .step_by(16)
            .map(|at| {
                let place = number::<8>(self.bytes, at) as usize;
                let info = number::<8>(self.bytes, at + 8);
                if info as u32 != LOAD_64_BITS {
                    return Err(ElfError::Relocation(info as u32));
                }
                let addend = number::<4>(self.bytes, code + place + 4) as u32;
                Ok((place / 8, self.target((info >> 32) as usize, addend)?))
            })
            .collect()
    }
}

/// Reads an object file.
pub fn read(bytes: &[u8]) -> Result<Object, ElfError> {
    let file = File::read(bytes)?;
    let mut object = Object { data_bytes: 0, programs: Vec::new() };
    for (index, section) in file.sections.iter().enumerate() {
        if let Some(name) = section.name.strip_prefix("xdp/") {
            let code = &bytes[section.offset..section.offset + section.size];
            object.programs.push(Program {
                name: name.to_owned(),
                instructions: (0..section.size / 8).map(|at| number::<8>(code, at * 8)).collect(),
                relocations: file.relocations(index)?,
            });
        } else if section.name == ".bss" {
            object.data_bytes = section.size as u64;
        } else if section.size > 0 && matches!(section.name.as_str(), ".data" | ".rodata") {
            return Err(ElfError::Section(section.name.clone()));
        }
    }
    Ok(object)
}

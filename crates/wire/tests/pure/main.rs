//! Tests of frames and books by the crate's own interface. They need neither root nor a network: one program, since
//! mutation testing links it anew for each change (`make mutants`).

mod frames;
mod reordering;
mod sequence_accounting;

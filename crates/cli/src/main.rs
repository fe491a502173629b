//! The binary `oncebox`.

use std::process::ExitCode;

use oncebox_cli::FreedMemory;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    oncebox_cli::main(FreedMemory::Kept)
}

//! The program `oncebox`.

use std::process::ExitCode;

use oncebox_cli::Freed;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    oncebox_cli::main(Freed::Kept)
}

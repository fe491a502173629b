//! The binary `oncebox-amnesia`: the same command line with an allocator that overwrites memory before it is freed. The
//! buffers in which libraries hold payloads cannot be wiped one by one; see docs/adr/0011-amnesia.md.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use oncebox_cli::FreedMemory;
use zeroizing_alloc::ZeroAlloc;

#[global_allocator]
static ALLOCATOR: ZeroAlloc<MiMalloc> = ZeroAlloc(MiMalloc);

fn main() -> ExitCode {
    oncebox_cli::main(FreedMemory::Zeroed)
}

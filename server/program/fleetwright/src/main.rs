//! The `fleetwright` program; every function is a subcommand of its library.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// A server holds millions of small objects, and frees on one thread what another one allocated.
/// With the allocator of glibc, which returns pages to the kernel and takes them again, a takeover of
/// a thousand clusters takes a third more processor time.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    fleetwright::main()
}

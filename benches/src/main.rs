//! `ticketing-benches`: the load tool's command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    ticketing_benches::cli::main()
}

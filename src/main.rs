//! The program: passes its arguments to the library and the exit code to the system.

use std::process::ExitCode;

fn main() -> ExitCode {
    shopmirror::cli::main()
}

//! The program: hands its arguments to the library and its outcome to the system.

use std::process::ExitCode;

fn main() -> ExitCode {
    shopmirror::cli::main()
}

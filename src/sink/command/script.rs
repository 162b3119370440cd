//! Why the kernel could not start a script, read from its first line.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The longest first line of a script that the kernel reads.
const LINE_MAX: u64 = 255;
/// What some editors of other systems write before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What is wrong with the first line of a program, and what to do; `None` if that is not known.
pub(super) fn problem(program: &Path, search_path: &str) -> Option<String> {
    let mut start = Vec::new();
    let file = File::open(program).ok()?;
    file.take(LINE_MAX).read_to_end(&mut start).ok()?;
    problem_of(&start, search_path)
}

fn problem_of(start: &[u8], search_path: &str) -> Option<String> {
    if start.starts_with(BYTE_ORDER_MARK) {
        return Some(
            "it begins with a byte order mark: save it as UTF-8 without one, so that it begins \
             with #!"
                .to_owned(),
        );
    }
    let Some(line) = start.strip_prefix(b"#!") else {
        // A program of the machine has zeros in its head.
        let is_script = !start.contains(&0);
        return is_script.then(|| {
            "its first line does not name its interpreter: begin it with #!/bin/sh, or with #! and \
             the path of another one"
                .to_owned()
        });
    };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    if line.ends_with('\r') {
        return Some(
            "its lines end as on Windows, so its interpreter is not found: run sed -i 's/\\r$//' \
             on it"
                .to_owned(),
        );
    }
    let mut words = line.split_whitespace();
    let Some(interpreter) = words.next() else {
        return Some("its first line names no interpreter after #!: add its path".to_owned());
    };
    if !Path::new(interpreter).is_file() {
        return Some(format!(
            "its interpreter {interpreter} is not there: install it, or correct the first line"
        ));
    }
    // The program that env looks for: the first word that is no option and sets no variable.
    if !interpreter.ends_with("/env") {
        return None;
    }
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    if is_found(name, search_path) {
        None
    } else {
        Some(format!(
            "its interpreter {name} is not found in {search_path}: install it there, or name its \
             path in the first line"
        ))
    }
}

fn is_found(name: &str, search_path: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).is_file();
    }
    search_path
        .split(':')
        .any(|folder| PathBuf::from(folder).join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_script_from_starting_is_named() {
        for (start, words) in [
            ("#!/bin/sh\necho", None),
            ("#! /bin/sh -e\n", None),
            ("#!/usr/bin/env sh\n", None),
            ("#!/usr/bin/env -S LANG=C sh -e\n", None),
            ("\u{7f}ELF\0\0", None),
            ("#!/bin/sh\r\necho\r\n", Some("as on Windows")),
            ("#!/no/such/python\n", Some("/no/such/python is not there")),
            (
                "#!/usr/bin/env no-such-python\n",
                Some("no-such-python is not found in /usr/bin:/bin"),
            ),
            ("\u{feff}#!/bin/sh\n", Some("byte order mark")),
            ("echo\n", Some("begin it with #!/bin/sh")),
            ("", Some("begin it with #!/bin/sh")),
            ("#!\n", Some("names no interpreter")),
        ] {
            let problem = problem_of(start.as_bytes(), "/usr/bin:/bin");
            match words {
                None => assert_eq!(problem, None, "{start:?}"),
                Some(words) => assert!(problem.unwrap().contains(words), "{start:?}"),
            }
        }
    }
}

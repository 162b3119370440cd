//! Where the socket lies: next to the store, under a name that the system accepts.
//!
//! A socket's address holds about a hundred bytes. The path of a store in a deeper folder is
//! replaced by one through the folder's file descriptor.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::file_owner::folder_of;

/// The longest path that a socket's address can hold, without the closing zero.
const MAX_PATH: usize = 107;

/// The path to bind or to connect to.
pub(super) struct SocketAddress {
    pub(super) path: PathBuf,
    /// Keeps the descriptor in `path` open.
    _folder: Option<File>,
}

impl SocketAddress {
    /// The address of the socket that belongs to the store at `store`.
    pub(super) fn of(store: &Path) -> io::Result<Self> {
        let mut name = store.as_os_str().to_owned();
        name.push("-sock");
        let path = PathBuf::from(name);
        if path.as_os_str().len() <= MAX_PATH {
            return Ok(Self { path, _folder: None });
        }
        let folder = File::open(folder_of(&path))?;
        let file = path.file_name().expect("the path of a store ends in a file name");
        Ok(Self {
            path: Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(file),
            _folder: Some(folder),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_folder_is_reached_through_its_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let near = SocketAddress::of(Path::new("/var/lib/shopmirror/mirror.db")).unwrap();
        assert_eq!(near.path, Path::new("/var/lib/shopmirror/mirror.db-sock"));
        let deep = dir.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        let address = SocketAddress::of(&deep.join("mirror.db")).unwrap();
        assert!(address.path.as_os_str().len() <= MAX_PATH, "{:?}", address.path);
        std::fs::write(&address.path, "").unwrap();
        assert!(deep.join("mirror.db-sock").exists());
    }
}

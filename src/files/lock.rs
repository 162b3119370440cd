//! Locks a file that another process may lock for a moment only.
//!
//! A program that is just being started has a copy of every open file of its parent until it
//! begins. If the parent is killed then, the copy keeps the lock a little longer. A command that
//! tests whether a file is locked also has the lock for a moment.

use std::fs::{File, TryLockError};
use std::time::Duration;

/// How often to try again, and after how long: a second in all.
const RETRIES: u32 = 50;
const RETRY: Duration = Duration::from_millis(20);

/// Locks the file; waits up to a second if another process has the lock. Blocks.
///
/// # Errors
/// [`TryLockError::WouldBlock`] if the other process still has the lock then.
pub(crate) fn lock_soon(file: &File) -> Result<(), TryLockError> {
    lock_with(file, || std::thread::sleep(RETRY))
}

fn lock_with(file: &File, mut wait: impl FnMut()) -> Result<(), TryLockError> {
    for _ in 0..RETRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => wait(),
            done => return done,
        }
    }
    file.try_lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twice() -> (tempfile::NamedTempFile, File) {
        let first = tempfile::NamedTempFile::new().unwrap();
        let second = first.reopen().unwrap();
        (first, second)
    }

    #[test]
    fn a_lock_that_outlives_its_owner_for_a_moment_is_waited_for() {
        let (owner, file) = twice();
        owner.as_file().try_lock().unwrap();
        // As a program has it that is just being started.
        let mut copy = Some(owner.as_file().try_clone().unwrap());
        drop(owner);
        let mut waits = 0;
        let locked = lock_with(&file, || {
            waits += 1;
            if waits == 3 {
                copy = None;
            }
        });
        assert!(locked.is_ok(), "{locked:?}");
        assert_eq!(waits, 3);
    }

    #[test]
    fn a_lock_that_is_kept_is_given_up_after_a_second() {
        let (owner, file) = twice();
        owner.as_file().try_lock().unwrap();
        let mut waits = 0;
        let locked = lock_with(&file, || waits += 1);
        assert!(
            matches!(locked, Err(TryLockError::WouldBlock)),
            "{locked:?}"
        );
        assert_eq!(RETRY * waits, Duration::from_secs(1));
    }
}

//! Reads which boot of the machine this is, and how long ago it was.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use shopmirror_core::clock::Boot;

/// The machine's current boot; its id is empty if the kernel does not show it.
pub(crate) fn read() -> Boot {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let age = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
    Boot {
        id: id.trim().to_owned(),
        age,
    }
}

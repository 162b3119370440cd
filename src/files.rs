//! Files of the machine: reading what the configuration names, locks, owners, the boot.

pub(crate) mod boot;
pub(crate) mod lock;
pub(crate) mod owner;
pub mod read;

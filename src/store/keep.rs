//! Keeping the store: upkeep and retention, backups, checks, forgetting, and making the mirror
//! again.

pub(super) mod backup;
pub(super) mod backup_folder;
pub(super) mod checkpoint;
pub(super) mod forget;
pub(super) mod maintain;
pub(super) mod rebuild;
pub(super) mod restore;
pub(super) mod verify;

//! The store: one file that is whole, backed up, verified, and open to other programs.

mod altered;
mod backup;
mod disk;
mod instance;
mod locked;
mod lost;
mod mirror;
#[cfg(feature = "s3")]
mod offsite;
mod released;
mod root;
mod search_index;
mod side_files;

//! `init --new-age-key`: the pair of keys for off-site backups. The secret key is printed and never
//! stored: this machine can then write backups, and who takes it over can read none of them.

use std::process::ExitCode;

use age::secrecy::ExposeSecret;
use age::x25519::Identity;

use crate::cli::output;

/// Makes a pair, and prints what to do with its halves.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    let secret = Identity::generate();
    let text = format!(
        "The public key, for the configuration:\n\
         \n\
         [backup.s3]\n\
         age_recipient = \"{}\"\n\
         \n\
         The secret key, which is shown only now. Print it or keep it in a password manager, and \
         never on this machine:\n\
         \n\
         {}\n\
         \n\
         To restore a backup, write it into a file and give that with --age-key FILE. Without it \
         nobody can read the backups.\n",
        secret.to_public(),
        secret.to_string().expose_secret(),
    );
    output::text(&text)
}

//! Standard Webhooks signatures, version 1: HMAC-SHA256 over `id.timestamp.body`.
//!
//! Every secret adds a signature, so that a receiver can change its secret at any time. Secrets are
//! wiped from memory when dropped, and never shown.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice};

use crate::config::Secret;
use sha2::Sha256;

/// The sizes that the specification allows for a secret, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Signs with every secret of one webhook.
#[derive(Clone)]
pub(super) struct Signer {
    secrets: Vec<SecretSlice<u8>>,
}

impl Signer {
    /// Reads secrets of the form `whsec_` and base64, newest first.
    ///
    /// # Errors
    /// Which secret cannot be used, and what to write instead.
    pub(super) fn build(secrets: &[Secret]) -> Result<Self, String> {
        let secrets = secrets.iter().enumerate().map(|(index, secret)| {
            read(secret.expose_secret())
                .map_err(|problem| format!("signing secret {} {problem}", index + 1))
        });
        Ok(Self { secrets: secrets.collect::<Result<_, _>>()? })
    }

    /// The header `webhook-signature`; `None` without secrets.
    pub(super) fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
        let signatures: Vec<String> = self
            .secrets
            .iter()
            .map(|secret| {
                let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret())
                    .expect("HMAC takes a key of any length");
                for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
                    mac.update(part);
                }
                format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
            })
            .collect();
        (!signatures.is_empty()).then(|| signatures.join(" "))
    }
}

fn read(text: &str) -> Result<SecretSlice<u8>, &'static str> {
    let coded = text
        .trim()
        .strip_prefix("whsec_")
        .ok_or("does not begin with whsec_: make one with whsec_ and the base64 of 32 bytes")?;
    let secret = STANDARD
        .decode(coded)
        .or_else(|_| STANDARD_NO_PAD.decode(coded))
        .map_err(|_| "is not whsec_ followed by base64")?;
    if !SECRET_BYTES.contains(&secret.len()) {
        return Err("must hold 24 to 64 bytes as base64 after whsec_");
    }
    Ok(secret.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_published_example_has_its_signature() {
        let signer = Signer::build(&[SECRET.into()]).unwrap();
        assert_eq!(
            signer
                .sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#)
                .unwrap(),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn a_bad_secret_is_refused_without_being_shown() {
        for bad in ["CANARY", "whsec_CANARY!", "whsec_Q0FOQVJZ", ""] {
            let text = Signer::build(&[SECRET.into(), bad.into()]).err().unwrap();
            assert!(text.contains("secret 2") && !text.contains("CANARY"), "{text}");
        }
    }
}

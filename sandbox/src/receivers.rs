//! The seven receivers: each turns one provider's payload into fields and a destination.
//!
//! Reads payloads only; what becomes of the fields is the pipeline's. The payloads of providers
//! are not shown by the contract: their shapes here are assumptions, listed in the module docs.

mod builders;
mod envelope;
mod leads;
mod pairs;
mod signature;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::envelope::Refusal;
use super::intake::How;
use super::intake::field::Destination;
use super::keys::Provider;

pub(super) use self::envelope::read as read_envelope;

/// One receiver, by the neutral name of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Adapter {
    FormBuilderSigned1,
    FormBuilderUnsigned,
    FormBuilderSigned2,
    MarketplaceB2b,
    ListingDirectory,
    Form,
    Canonical,
}

/// A request to a receiver.
pub(super) struct Payload {
    pub(super) headers: HeaderMap,
    pub(super) query: String,
    pub(super) body: Bytes,
    /// The sandbox's date, for the keys that hold for a day.
    pub(super) today: String,
}

/// What a payload says.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) data: Map<String, Value>,
    pub(super) form_id: Option<String>,
    pub(super) destination: Option<Destination>,
    pub(super) business_id: Option<i64>,
    /// What a repeat of this submission is known by.
    pub(super) derived_key: Option<String>,
}

impl Adapter {
    pub(super) const ALL: [Self; 7] = [
        Self::FormBuilderSigned1,
        Self::FormBuilderUnsigned,
        Self::FormBuilderSigned2,
        Self::MarketplaceB2b,
        Self::ListingDirectory,
        Self::Form,
        Self::Canonical,
    ];

    /// The name in the path.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::FormBuilderSigned1 => "form_builder_signed_1",
            Self::FormBuilderUnsigned => "form_builder_unsigned",
            Self::FormBuilderSigned2 => "form_builder_signed_2",
            Self::MarketplaceB2b => "marketplace_b2b",
            Self::ListingDirectory => "listing_directory",
            Self::Form => "form",
            Self::Canonical => "canonical",
        }
    }

    /// The receiver of that name, or the contract's 404.
    pub(super) fn named(name: &str) -> Result<Self, Refusal> {
        let known = Self::ALL.into_iter().find(|adapter| adapter.name() == name);
        known.ok_or_else(Refusal::unsupported_adapter)
    }

    /// Refuses a key of a provider that this receiver is not for.
    pub(super) fn admit(self, provider: Provider) -> Result<(), Refusal> {
        let own = match self {
            Self::FormBuilderSigned1 => provider == Provider::FormBuilderSigned1,
            Self::FormBuilderUnsigned => provider == Provider::FormBuilderUnsigned,
            Self::FormBuilderSigned2 => provider == Provider::FormBuilderSigned2,
            Self::MarketplaceB2b => provider == Provider::MarketplaceB2b,
            Self::ListingDirectory => provider == Provider::ListingDirectory,
            Self::Form | Self::Canonical => {
                matches!(provider, Provider::Website | Provider::RestApi)
            }
        };
        let refused = || Refusal::forbidden("This receiver is not for keys of this provider.");
        if own { Ok(()) } else { Err(refused()) }
    }

    /// The header that carries the signature, for those that sign.
    pub(super) const fn signature_header(self) -> Option<&'static str> {
        match self {
            Self::FormBuilderSigned1 => Some("x-form-builder-1-signature"),
            Self::FormBuilderSigned2 => Some("x-form-builder-2-signature"),
            _ => None,
        }
    }

    /// Whether the key is in the path only.
    pub(super) const fn has_key_in_path(self) -> bool {
        matches!(self, Self::MarketplaceB2b | Self::ListingDirectory)
    }

    /// How the pipeline is to treat its submissions.
    pub(super) const fn how(self) -> How {
        match self {
            Self::FormBuilderSigned1 | Self::FormBuilderUnsigned | Self::FormBuilderSigned2 => {
                How::Mapped
            }
            Self::MarketplaceB2b | Self::ListingDirectory => How::Fixed,
            Self::Form | Self::Canonical => How::Lenient,
        }
    }

    /// Refuses a body without a valid signature once the integration has a secret.
    pub(super) fn verify(self, secret: Option<&str>, payload: &Payload) -> Result<(), Refusal> {
        let (Some(header), Some(secret)) = (self.signature_header(), secret) else {
            return Ok(());
        };
        let sent = payload
            .headers
            .get(header)
            .and_then(|value| value.to_str().ok());
        if sent.is_some_and(|sent| signature::is_valid(secret, &payload.body, sent)) {
            return Ok(());
        }
        let message = "The signature is missing or is not that of the body.";
        Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "invalid_signature",
            message,
        ))
    }

    /// Reads the payload.
    pub(super) async fn decode(self, payload: &Payload) -> Result<Decoded, Refusal> {
        let mut decoded = match self {
            Self::FormBuilderSigned1 => builders::signed_1(&payload.body)?,
            Self::FormBuilderUnsigned => builders::unsigned(payload).await?,
            Self::FormBuilderSigned2 => builders::signed_2(&payload.body)?,
            Self::MarketplaceB2b => leads::marketplace(payload)?,
            Self::ListingDirectory => leads::directory(payload).await?,
            Self::Form => envelope::form(payload).await?,
            Self::Canonical => envelope::canonical(payload)?,
        };
        if self.has_key_in_path() {
            decoded.destination = Some(Destination::Lead);
        } else if let Some(pinned) = pinned(&payload.query)? {
            decoded.destination.get_or_insert(pinned);
        }
        Ok(decoded)
    }
}

impl Payload {
    fn content_type(&self) -> &str {
        let value = self.headers.get(header::CONTENT_TYPE);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// A fingerprint that the same content has all day.
    fn of_the_day(&self, content: &str) -> String {
        let hash = STANDARD.encode(Sha256::digest(content.as_bytes()));
        format!("derived:{}:{hash}", self.today)
    }
}

/// The destination of the query, if it names one.
pub(super) fn pinned(query: &str) -> Result<Option<Destination>, Refusal> {
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let named = pairs
        .find(|(name, _)| name == "destination")
        .map(|(_, value)| value);
    named
        .filter(|name| !name.is_empty())
        .map(|name| destination(&name))
        .transpose()
}

fn destination(name: &str) -> Result<Destination, Refusal> {
    Destination::named(name).ok_or_else(|| {
        Refusal::field(
            "destination",
            "The destination must be lead or self_checkin.",
        )
    })
}

/// A scalar as text; `None` for anything else and for the empty string.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A JSON object, or the refusal of any other body.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Refusal::unreadable("The body must be a JSON object.")),
        Err(_) => Err(Refusal::unreadable("The body is not valid JSON.")),
    }
}

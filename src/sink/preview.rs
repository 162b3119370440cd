//! What a sink would send for one change, without sending it and without its secrets.

/// What would be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Where to and how, without an address that may be secret.
    pub how: String,
    /// The headers, if there are any; the values of secret ones are hidden.
    pub headers: Vec<(String, String)>,
    /// The body, the line or the mail.
    pub body: String,
}

/// Stands in place of a secret.
pub(super) const HIDDEN: &str = "(hidden)";

impl Preview {
    pub(super) fn new(how: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            how: how.into(),
            headers: Vec::new(),
            body: body.into(),
        }
    }
}

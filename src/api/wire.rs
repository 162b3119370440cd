//! The responses of the workspace API that are not pages: pings and custom-field listings.
//!
//! Members that the contract does not name are ignored. If the contract does not promise a member,
//! it may be absent or have another type.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::page::{PageError, text};

/// The response to a connection test (contract, "GET /integrations/ping").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    /// `connected`
    pub status: String,
    /// The display name of the workspace.
    pub workspace: Option<String>,
    /// The provider type the key was made for.
    pub provider: Option<String>,
}

pub(super) fn ping(body: Vec<u8>) -> Result<Ping, PageError> {
    let body: Value = object(&text(body)?)?;
    Ok(Ping {
        status: member(&body, "status").ok_or(PageError::UnexpectedShape)?,
        workspace: member(&body, "workspace"),
        provider: member(&body, "provider"),
    })
}

fn member(body: &Value, name: &str) -> Option<String> {
    Some(body.get(name)?.as_str()?.to_owned())
}

/// The names of the forms that have custom fields.
pub(super) fn form_types(body: Vec<u8>) -> Result<Vec<String>, PageError> {
    #[derive(Deserialize)]
    struct Listing {
        form_types: Vec<String>,
    }
    let listing: Listing = object(&text(body)?)?;
    Ok(listing.form_types)
}

/// The definition of each field of one form, as its exact JSON text.
pub(super) fn custom_fields(body: Vec<u8>) -> Result<Vec<String>, PageError> {
    #[derive(Deserialize)]
    struct Listing<'a> {
        #[serde(borrow)]
        fields: Vec<&'a RawValue>,
    }
    let body = text(body)?;
    let listing: Listing<'_> = object(&body)?;
    let mut fields = Vec::new();
    for field in listing.fields {
        fields.push(field.get().to_owned());
    }
    Ok(fields)
}

fn object<'a, T: Deserialize<'a>>(body: &'a str) -> Result<T, PageError> {
    serde_json::from_str(body).map_err(|error| {
        if error.is_data() {
            PageError::UnexpectedShape
        } else {
            PageError::NotJson
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_and_definitions_are_read_with_the_members_they_have() {
        let full = br#"{"status":"connected","workspace":"Zo\u00eb's","provider":"x","new":[1]}"#;
        assert_eq!(
            ping(full.to_vec()).unwrap(),
            Ping {
                status: "connected".into(),
                workspace: Some("Zoë's".into()),
                provider: Some("x".into())
            }
        );
        let bare = ping(br#"{"status":"connected","workspace":null}"#.to_vec()).unwrap();
        assert_eq!((bare.workspace, bare.provider), (None, None));
        let body = br#"{"fields":[{"field_name":"A\u0041", "n": 10.10}],"x":1}"#.to_vec();
        assert_eq!(
            custom_fields(body).unwrap(),
            [r#"{"field_name":"A\u0041", "n": 10.10}"#]
        );
        let body = br#"{"form_types":["Lead","Repair"]}"#.to_vec();
        assert_eq!(form_types(body).unwrap(), ["Lead", "Repair"]);
    }

    #[test]
    fn anything_but_the_expected_object_is_refused() {
        for (body, word) in [
            ("", "empty_body"),
            ("<html>", "html"),
            ("{\"status\":", "not_json"),
            ("null", "unexpected_shape"),
            ("[]", "unexpected_shape"),
            ("{}", "unexpected_shape"),
            (
                "{\"status\":1,\"form_types\":1,\"fields\":1}",
                "unexpected_shape",
            ),
        ] {
            let body = || body.as_bytes().to_vec();
            assert_eq!(ping(body()).unwrap_err().word(), word, "{:?}", body());
            assert_eq!(form_types(body()).unwrap_err().word(), word, "{:?}", body());
            assert_eq!(
                custom_fields(body()).unwrap_err().word(),
                word,
                "{:?}",
                body()
            );
        }
        assert_eq!(
            ping("[".repeat(10_000).into_bytes()).unwrap_err().word(),
            "not_json"
        );
    }
}

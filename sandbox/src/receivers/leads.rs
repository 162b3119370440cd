//! The B2B marketplace and the listing directory: leads whose field names need no map.
//!
//! Each has a fixed label for its source; anything that is not a field of a lead becomes a custom
//! field.

use serde_json::{Map, Value, json};

use super::{Decoded, Payload, object, pairs, text};
use crate::envelope::Refusal;

/// The fixed source of the marketplace's leads.
const MARKETPLACE: &str = "B2B marketplace";
/// The fixed source of the directory's leads.
const DIRECTORY: &str = "Listing directory";
const INDIA: &str = "+91";
const NATIONAL_DIGITS: usize = 10;

/// The enquiry, as the payload itself or under `RESPONSE`; member names in any case.
pub(super) fn marketplace(payload: &Payload) -> Result<Decoded, Refusal> {
    let mut sent = object(&payload.body)?;
    if let Some(response) = sent.remove("RESPONSE") {
        let Value::Object(response) = response else {
            return Err(Refusal::unreadable(
                "The payload's RESPONSE must be an object.",
            ));
        };
        sent = response;
    }
    let mut sent = Enquiry::new(sent);
    let Some(query_id) = sent.peek("unique_query_id") else {
        return Err(Refusal::unreadable("The payload has no unique_query_id."));
    };
    let mut lead = Map::new();
    let mut put = |name: &str, value: Option<String>| {
        lead.extend(value.map(|value| (name.to_owned(), Value::from(value))));
    };
    put("source", Some(MARKETPLACE.to_owned()));
    put("name", sent.take("sender_name"));
    put("email", sent.take("sender_email"));
    let (number, code) = split(sent.take("sender_mobile"));
    put("mobile_number", number);
    put("mobile_country_code", code);
    put("phone_number", sent.take("sender_phone"));
    put(
        "comment",
        joined([sent.take("subject"), sent.take("query_message")], "\n"),
    );
    let address = json!({
        "address_line": sent.take("sender_address"),
        "city": sent.take("sender_city"),
        "state": sent.take("sender_state"),
        "zip_code": sent.take("sender_pincode"),
    });
    Ok(sent.decoded(lead, address, Some(query_id)))
}

/// The enquiry as the query string or as a form.
pub(super) async fn directory(payload: &Payload) -> Result<Decoded, Refusal> {
    let mut sent = pairs::of_text(payload.query.as_bytes());
    if !payload.body.is_empty() {
        let body = match object(&payload.body) {
            Ok(body) => body,
            Err(_) => pairs::of_body(payload).await?,
        };
        sent.extend(body);
    }
    if sent.is_empty() {
        return Err(Refusal::unreadable("The enquiry has no parameters."));
    }
    let fingerprint = payload.of_the_day(&Value::Object(sent.clone()).to_string());
    let mut sent = Enquiry::new(sent);
    let key = sent.peek("leadid").unwrap_or(fingerprint);
    let mut lead = Map::new();
    let mut put = |name: &str, value: Option<String>| {
        lead.extend(value.map(|value| (name.to_owned(), Value::from(value))));
    };
    put("source", Some(DIRECTORY.to_owned()));
    let prefix = sent.take("prefix");
    if let Some(name) = sent.take("name") {
        put("name", joined([prefix, Some(name)], " "));
    }
    put("email", sent.take("email"));
    let (number, code) = split(sent.take("mobile"));
    put("mobile_number", number);
    put("mobile_country_code", code);
    put("phone_number", sent.take("phone"));
    put("comment", sent.take("category"));
    let address = json!({
        "address_line": sent.take("area"),
        "city": sent.take("city"),
        "zip_code": sent.take("pincode"),
    });
    Ok(sent.decoded(lead, address, Some(key)))
}

/// What was sent, under lower-case names. Members that no field takes become custom fields.
struct Enquiry(Map<String, Value>);

impl Enquiry {
    fn new(sent: Map<String, Value>) -> Self {
        Self(
            sent.into_iter()
                .map(|(name, value)| (name.to_lowercase(), value))
                .collect(),
        )
    }

    fn peek(&self, name: &str) -> Option<String> {
        self.0.get(name).and_then(text)
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let value = self.0.remove(name)?;
        text(&value).filter(|text| !text.trim().is_empty())
    }

    fn decoded(
        self,
        mut lead: Map<String, Value>,
        address: Value,
        derived_key: Option<String>,
    ) -> Decoded {
        if address
            .as_object()
            .is_some_and(|parts| parts.values().any(Value::is_string))
        {
            lead.insert("address".to_owned(), address);
        }
        lead.insert("custom_fields".to_owned(), Value::Object(self.0));
        Decoded {
            data: lead,
            derived_key,
            ..Decoded::default()
        }
    }
}

fn joined(parts: [Option<String>; 2], between: &str) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(between))
}

/// The national number and the Indian dialling code; another country's number stays whole.
fn split(number: Option<String>) -> (Option<String>, Option<String>) {
    let Some(number) = number else {
        return (None, None);
    };
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    let national = match digits.len() {
        NATIONAL_DIGITS if !number.trim_start().starts_with('+') => digits.as_str(),
        _ => {
            let rest = digits
                .strip_prefix("91")
                .or_else(|| digits.strip_prefix('0'));
            rest.filter(|rest| rest.len() == NATIONAL_DIGITS)
                .unwrap_or_default()
        }
    };
    if national.is_empty() {
        return (Some(number), None);
    }
    (Some(national.to_owned()), Some(INDIA.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_indian_number_is_split_and_another_stays_whole() {
        let split = |number: &str| split(Some(number.to_owned()));
        let ours = (Some("9845000001".to_owned()), Some(INDIA.to_owned()));
        for number in [
            "+91-9845000001",
            "919845000001",
            "09845000001",
            "98450 00001",
        ] {
            assert_eq!(split(number), ours, "{number}");
        }
        assert_eq!(
            split("+1-4155550100"),
            (Some("+1-4155550100".to_owned()), None)
        );
    }
}

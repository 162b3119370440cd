//! The mail of a scheduled report: its text, its document with the chart inline, and the file that
//! was asked for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lettre::message::header::ContentType;
use lettre::message::{Attachment, MultiPart};
use serde::Deserialize;

use super::message::part;

/// The name by which the document refers to the picture of the chart.
const CHART_ID: &str = "chart";

/// A scheduled report as sinks get it. Missing fields are empty: the mail then has less.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct MailedReport {
    title: String,
    from: String,
    to: String,
    text: String,
    html: String,
    chart: Option<String>,
    format: String,
    content: String,
    content_encoding: Option<String>,
    content_type: String,
    file_name: String,
}

impl MailedReport {
    /// Reads the body of the notice.
    pub(super) fn parse(body: &str) -> Self {
        serde_json::from_str(body).unwrap_or_default()
    }

    pub(super) fn subject(&self) -> String {
        if self.from == self.to {
            format!("{}, {}", self.title, self.to)
        } else {
            format!("{}, {} to {}", self.title, self.from, self.to)
        }
    }

    /// The bytes of the file that was asked for.
    fn file(&self) -> Vec<u8> {
        let text = self.content.as_bytes();
        if self.content_encoding.as_deref() == Some("base64")
            && let Ok(bytes) = STANDARD.decode(text)
        {
            return bytes;
        }
        text.to_vec()
    }

    /// The parts of the mail.
    pub(super) fn parts(&self) -> MultiPart {
        let shown =
            MultiPart::alternative().singlepart(part(ContentType::TEXT_PLAIN, self.text.clone()));
        let shown = match &self.chart {
            // Mail programs show a picture of the mail rather than one in its text.
            Some(chart) => {
                let picture = format!("<img src=\"cid:{CHART_ID}\" alt=\"chart\">");
                let html = self.html.replacen(chart.as_str(), &picture, 1);
                let svg = ContentType::parse("image/svg+xml").expect("a media type");
                let chart = Attachment::new_inline(CHART_ID.to_owned()).body(chart.clone(), svg);
                shown.multipart(
                    MultiPart::related()
                        .singlepart(part(ContentType::TEXT_HTML, html))
                        .singlepart(chart),
                )
            }
            None => shown.singlepart(part(ContentType::TEXT_HTML, self.html.clone())),
        };
        if !["csv", "json", "svg", "xlsx"].contains(&self.format.as_str()) {
            return shown;
        }
        let Ok(kind) = ContentType::parse(&self.content_type) else {
            return shown;
        };
        let file = Attachment::new(self.file_name.clone()).body(self.file(), kind);
        MultiPart::mixed().multipart(shown).singlepart(file)
    }
}
